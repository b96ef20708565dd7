"""Describes a real GPU as a row of targets.toml, and compares it with the row that it matches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from conformance.devices.environment import torch_build
from conformance.devices.machine import Machine
from conformance.devices.targets import Target, amd_architecture, matching_target, targets
from conformance.documentation import reference

#: What a driver may report differently for the same product.
_VARYING = ("driver_version", "platform_name", "total_memory")


def target_row(machine: Machine, device: str) -> str:
    """Returns a row of targets.toml for the first GPU of a device type: TOML, with the properties that rows have."""
    return device_row(device, machine.gpus[device], torch_build().version)


def device_row(device: str, gpu: Mapping[str, Any], torch: str, name: str = "") -> str:
    """Returns a row of targets.toml as TOML, with comments on what is known already and on what is missing.

    `gpu`: `capability` and `properties`, as torch reports them. `torch`: the version that reported them. `name`: of the
    row; default: a name that no row has, or of the row that the GPU matches.
    """
    import tomli_w

    target = matching_target(device, tuple(gpu["capability"]), gpu["properties"])
    wanted = row_properties(target.family)
    properties = {key: value for key, value in gpu["properties"].items() if key in wanted}
    row = {
        "device": device,
        **({"platform": target.platform} if target.platform else {}),
        "description": str(gpu["properties"].get("name", device)),
        "confirmed": f"on the device, torch {torch}",
        "capability": list(gpu["capability"]),
        "properties": properties,
    }
    before = [] if target.local else [f"# targets.toml has this device already: {target.name}"]
    if target.local and target.platform:
        before = ['# not reported: variant_of = "cuda_sm80" and stores_code = false, as in the other rows of rocm']
    if target.local and device == "xpu":
        has = f"{reference('xpu')} says which devices have it"
        before = [f"# not reported: flash_attention ({has}); variant_of, if it is one"]
    after = [f"# this torch does not report: {key}" for key in sorted(wanted - set(properties))]
    return "\n".join([*before, tomli_w.dumps({name or _row_name(target, gpu): row}).rstrip("\n"), *after])


def row_properties(family: str) -> set[str]:
    """Returns the names of the properties that rows of a device type or platform have."""
    return {key for row in targets().values() if row.family == family for key in row.properties}


def _row_name(target: Target, gpu: Mapping[str, Any]) -> str:
    if not target.local:
        return target.name
    name = f"{target.family}_{architecture(target.device, gpu) or 'name_it'}"
    while name in targets():
        name += "_other"
    return name


def architecture(device: str, gpu: Mapping[str, Any]) -> str:
    """Returns "sm90" for a GPU of NVIDIA, "gfx942" for one of AMD, "" for others."""
    major, minor = gpu["capability"]
    if device != "cuda":
        return ""
    return amd_architecture(gpu["properties"]) or f"sm{major}{minor}"


def differing_properties(target: Target, properties: Mapping[str, Any]) -> Iterable[str]:
    """Yields a line for each property that the device reports with another value than its row has."""
    for key, value in target.properties.items():
        if key in properties and properties[key] != value:
            note = " (it depends on the driver)" if key in _VARYING else ""
            yield f"{key}: the row has {value!r}, the device {properties[key]!r}{note}"
