"""Spreads workers over the GPUs that this process may see: each worker sees one.

The variable must be set before the worker imports torch. pytest-xdist starts a worker with the environment of its
specification, and starts the worker that replaces it with the same one: so the GPU stays busy after a crash.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any

from conformance.devices.machine import Machine
from conformance.devices.vendor_devices import vendor_devices

#: Device type → the variable that says which GPUs a process sees: a list of numbers, or of UUIDs. Those of vendors say
#: it themselves, see VendorDevice.
VARIABLES = {"cuda": "CUDA_VISIBLE_DEVICES", "xpu": "ZE_AFFINITY_MASK"}
#: It chooses among the GPUs that ZE_AFFINITY_MASK leaves, by their new numbers: the two cannot be combined.
_SELECTOR = "ONEAPI_DEVICE_SELECTOR"


def gpus_of_workers(machine: Machine, environment: Mapping[str, str], workers: int) -> dict[str, list[str]]:
    """Device type → the GPU of each worker, as its variable names it; no device type with fewer than two GPUs.

    `environment`: of the process that starts the workers. Its own list of visible GPUs stays in force.
    """
    result = {}
    for device, variable in _variables().items():
        ordinals = machine.ordinals(device)
        if device == "xpu" and environment.get(_SELECTOR):
            continue
        visible = [name.strip() for name in environment.get(variable, "").split(",") if name.strip()]
        if len(ordinals) > 1 and (not visible or len(visible) > max(ordinals)):
            names = [visible[ordinal] if visible else str(ordinal) for ordinal in ordinals]
            result[device] = [names[worker % len(names)] for worker in range(workers)]
    return result


def _variables() -> dict[str, str]:
    vendors = {name: device.visible_devices for name, device in vendor_devices().items()}
    return VARIABLES | {name: variable for name, variable in vendors.items() if variable}


def bind(machine: Machine, specifications: Sequence[Any]) -> None:
    """Sets the variables of the workers that pytest-xdist is about to start. `specifications`: of execnet."""
    local = [each for each in specifications if each.popen]
    for device, names in gpus_of_workers(machine, os.environ, len(local)).items():
        for specification, name in zip(local, names, strict=True):
            variables: MutableMapping[str, str] = specification.env
            variables[_variables()[device]] = name


def description(machine: Machine, device: str, workers: int) -> str:
    """Returns "8 workers on 2 GPUs"; "" where workers are not spread over the GPUs of this type."""
    names = gpus_of_workers(machine, os.environ, workers).get(device)
    return f"{workers} workers on {len(set(names))} GPUs" if names and workers > 1 else ""
