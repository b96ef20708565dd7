"""Devices of vendors: device types that other packages add, each by an entry point of the group `conformance.devices`.

    [project.entry-points."conformance.devices"]
    acme = "conformance_acme:DEVICE"            # a VendorDevice

docs/vendor.md says how to write one. Nothing here imports torch. An entry point is loaded when a run with cases starts,
or a command that needs the table of targets.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.metadata
import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conformance.errors import ConformanceError, first_line

#: The group of the entry points.
GROUP = "conformance.devices"
#: The device types of this package.
BUILT_IN = ("cpu", "cuda", "xpu")

#: What Inductor's kernels are written in. A vendor's may be in another language, see `scheduling`.
_LANGUAGES = {"cpu": "cpp", "cuda": "triton", "xpu": "triton"}
#: The words of selectors that a vendor's device may answer to, besides its own name.
SELECTORS = (*BUILT_IN, "gpu")
#: How cases run on a vendor's device. Binaries are for the built-in ones.
STAGES = ("native", "deviceless", "emulated")
#: Seconds for `probe`, which may import torch from a cold network disk.
_PROBE_LIMIT = 300

_PROBE = "import sys; from conformance.devices.vendor_devices import print_found; print_found(sys.argv[1])"


class VendorDeviceError(ConformanceError, ValueError):
    """A wrong entry point, or a device that cannot be probed. The message names the package that has to be mended."""


@dataclass(frozen=True)
class VendorDevice:
    """A device type that another package adds. An entry point of the group `conformance.devices` names the object.

    `name`: the device type, as torch and Inductor call it: `acme` for torch.device("acme"). Also the name of the
    entry point.
    `targets`: a file of the same format as conformance/devices/targets.toml; the names of its rows begin with
    `<name>_`.
    `probe`: returns the target of each device of this machine, in the order of torch's ordinals; "" for a device that
    no row describes. It runs in a process of its own, so it may import torch.
    `register`: registers the device and its Inductor backend. It is called once in each process that runs cases on the
    device, after torch was imported.
    `kernels`: what Inductor's kernels for it are written in: facts, requirements and the text of snapshots read them
    so. "cpp", "triton", or another language with `scheduling`: Inductor's class whose define_kernel() defines them, as
    "module:Class".
    `selectors`: the words in declarations of cases that are for this device too, out of SELECTORS: `("gpu",)` if what a
    case says of GPUs holds for it.
    `stages`: how cases run on it, out of STAGES. "deviceless" needs `pretending`: a context manager, inside which
    torch and Inductor see the device of a target on a machine without it. It gets the row's `properties`. "emulated"
    needs `emulating` too: a context manager, inside which generated code loads its kernels, so that they run on the
    CPU. Its kernels get tensors in host memory. They raise conformance.NotEmulatedError with a reason, or
    conformance.EmulationError for a kernel that does something wrong.
    `refusals`: a text in what compiling raises → why there is no such code for the device: these items are excluded.
    `facts`: name → function of the texts of the generated modules. It returns a fact's value and its line in snapshots.
    `visible_devices`: the environment variable that says which devices a process sees, as a list of ordinals; "" for
    none. With it, several workers spread over several devices.
    `package`: filled in here: the package of the entry point, with its version.
    """

    name: str
    targets: Path
    kernels: str
    probe: Callable[[], Sequence[str]] = list
    register: Callable[[], object] = bool
    selectors: tuple[str, ...] = ()
    stages: tuple[str, ...] = ("native",)
    scheduling: str = ""
    pretending: Callable[[Mapping[str, Any]], AbstractContextManager[object]] | None = None
    emulating: Callable[[], AbstractContextManager[object]] | None = None
    refusals: Mapping[str, str] = field(default_factory=dict, hash=False)
    facts: Mapping[str, Callable[[Sequence[str]], tuple[Any, str]]] = field(default_factory=dict, hash=False)
    visible_devices: str = ""
    package: str = ""


def deviceless_problem(device: str) -> str:
    """Why no code is generated for a device type without the device; "" where it is."""
    vendor = vendor_devices().get(device)
    if vendor is None or "deviceless" in vendor.stages:
        return ""
    return f"{vendor.package} generates no code without the device"


def kernel_language(device: str) -> str:
    """What Inductor's kernels for a device type are written in."""
    vendor = vendor_devices().get(device)
    return vendor.kernels if vendor else _LANGUAGES[device]


def device_types() -> tuple[str, ...]:
    """All device types: those of this package, then those of vendors. Raises VendorDeviceError."""
    return (*BUILT_IN, *vendor_devices())


@functools.cache
def vendor_devices() -> dict[str, VendorDevice]:
    """Device type → the device, sorted by name. Raises VendorDeviceError for a wrong entry point."""
    found: dict[str, VendorDevice] = {}
    entries = {(each.name, each.value, _package(each)): each for each in importlib.metadata.entry_points(group=GROUP)}
    for (name, _, package), entry in sorted(entries.items(), key=lambda item: item[0]):
        device = _loaded(entry, package)
        if name in found:
            raise VendorDeviceError(f"{package} and {found[name].package} both have a device {name!r}: uninstall one")
        found[name] = device
    return found


def _package(entry: importlib.metadata.EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist else "a package without a name"


def _loaded(entry: importlib.metadata.EntryPoint, package: str) -> VendorDevice:
    where = f"the entry point {entry.name!r} of {package} (group {GROUP})"
    try:
        device = entry.load()
    except Exception as error:  # importing another package may raise anything
        raise VendorDeviceError(
            f"{where} cannot be loaded: {entry.value}: {type(error).__name__}: {first_line(error)}"
        ) from error
    if not isinstance(device, VendorDevice):
        raise VendorDeviceError(
            f"{where} names {entry.value}, which is of type {type(device).__name__}: it must be a "
            "conformance.VendorDevice"
        )
    if problem := _problem(device, entry.name):
        raise VendorDeviceError(f"{where}: {problem}")
    return dataclasses.replace(device, targets=Path(device.targets), package=package)


def _problem(device: VendorDevice, name: str) -> str:
    if device.name in BUILT_IN:
        return f"its name is {device.name!r}, which is a device type of conformance: name it as torch calls the device"
    if not isinstance(device.name, str) or not device.name.isidentifier() or device.name != name:
        return f"its name is {device.name!r}; the entry point and the device have the same name, such as acme"
    if not isinstance(device.targets, (str, Path)) or not Path(device.targets).is_file():
        return f"its targets are {str(device.targets)!r}, and there is no such file: name a file like targets.toml"
    if device.kernels not in _LANGUAGES.values() and not device.scheduling:
        return f"its kernels are {device.kernels!r}; they must be 'cpp' or 'triton', or scheduling names a class"
    for name_of, known in {"selectors": SELECTORS, "stages": STAGES}.items():
        value = getattr(device, name_of)
        if not isinstance(value, tuple) or set(value) - set(known):
            return f"its {name_of} are {value!r}; they must be a tuple of {', '.join(map(repr, known))}"
    if not {"native", "deviceless"} & set(device.stages):
        return f"its stages are {device.stages!r}; without 'native' or 'deviceless', no case runs on it"
    needed = ["probe", "register"]
    needed += ["pretending"] if set(device.stages) & {"deviceless", "emulated"} else []
    needed += ["emulating"] if "emulated" in device.stages else []
    for name_of in needed:
        if not callable(getattr(device, name_of)):
            return f"its {name_of} is {getattr(device, name_of)!r}; it must be a function"
    return ""


def probed(device: VendorDevice) -> list[str]:
    """The target of each device of this type on this machine. Raises VendorDeviceError if `probe` fails."""
    where = f"the devices of {device.package} cannot be listed"
    try:
        result = subprocess.run(
            [sys.executable, "-c", _PROBE, device.name],
            capture_output=True,
            text=True,
            check=False,
            timeout=_PROBE_LIMIT,
        )
    except subprocess.TimeoutExpired:
        raise VendorDeviceError(f"{where}: probe took more than {_PROBE_LIMIT} s, so a driver may hang") from None
    for line in result.stdout.splitlines():
        if line.startswith("FOUND"):
            found: Any = json.loads(line.removeprefix("FOUND"))
            if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
                raise VendorDeviceError(f"{where}: probe returned {found!r}; it must be a list of names of targets")
            return found
    last = (result.stderr.strip().splitlines() or ["no output"])[-1]
    raise VendorDeviceError(f"{where}: {last}")


def print_found(name: str) -> None:
    """In a process of its own: prints what `probe` returns, as JSON."""
    found = vendor_devices()[name].probe()
    print("FOUND" + json.dumps(list(found)))


def registration_problem(device: VendorDevice) -> str:
    """Calls `register`. Returns "", or why the device cannot be registered."""
    try:
        device.register()
    except Exception as error:  # noqa: BLE001 - a vendor's package may raise anything
        what = f"{type(error).__name__}: {first_line(error)}"
        return f"{device.package} cannot register the device {device.name}: {what}"
    return ""
