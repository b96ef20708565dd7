"""What this machine has: CPU instruction sets and real GPUs. One process detects them and passes them to its workers.

The real GPUs must be known before torch is imported. So a torch that was built for GPUs is queried in a process of its
own, and nothing here imports torch into this process.
"""

from __future__ import annotations

import ctypes
import functools
import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from conformance.devices import environment
from conformance.devices.targets import ARCHITECTURES, GPUS, Target, matching_target, multiprocessor_count, targets
from conformance.devices.vendor_devices import VendorDeviceError, deviceless_problem, probed, vendor_devices

_AVX512 = {"avx512f", "avx512dq", "avx512vl", "avx512bw", "fma"}
#: Instruction set → the flags of /proc/cpuinfo that it needs, as in the build flags of Inductor's own classes.
_ISA_FLAGS = {
    "avx2": {"avx2", "fma", "f16c"},
    "avx512": _AVX512,
    "amx": {*_AVX512, "avx512_vnni", "avx512_bf16", "amx_tile", "amx_bf16", "amx_int8"},
    "neon": {"asimd"},
    "sve256": {"asimd", "sve", "bf16"},
    "vsx": {"vsx"},
    "zvector": {"vxe"},
}
#: Asks Linux for the length of SVE's vectors: PR_SVE_GET_VL, and the bits of the answer that are the length in bytes.
_SVE_LENGTH, _SVE_LENGTH_BITS, _SVE256_BYTES = 51, 0xFFFF, 32

#: pytest-xdist sets this variable in its workers.
_WORKER = "PYTEST_XDIST_WORKER"
#: Passes the detected machine to workers.
_DETECTED = "_CONFORMANCE_MACHINE"
#: Seconds until torch must have listed the devices. Importing torch from a cold network disk takes a minute.
_QUERY_LIMIT = 300

_GPU_QUERY = """
import json, sys, torch
found = {}
for device in sys.argv[1:]:
    module = getattr(torch, device, None)
    if module is not None and module.is_available():
        found[device] = []
        for ordinal in range(module.device_count()):
            try:
                properties = module.get_device_properties(ordinal)
            except (AssertionError, RuntimeError):
                if not ordinal:
                    raise
                break  # a process can use only the first part of a divided GPU, but counts all
            names = [name for name in dir(properties) if not name.startswith("_")]
            values = {name: getattr(properties, name) for name in names}
            plain = {name: v for name, v in values.items() if isinstance(v, (bool, int, float, str, list))}
            capability = list(module.get_device_capability(ordinal)) if device == "cuda" else [0, 0]
            found[device].append({"capability": capability, "properties": plain})
print("FOUND" + json.dumps(found))
"""


@dataclass(frozen=True)
class Machine:
    """`isas`: those of the table's instruction sets that the CPU has. `gpus`: device type → `capability` and
    `properties` as the first real GPU of that type reports them, and `ordinals`: torch's numbers of the GPUs that have
    the same target. A vendor's device has its `target` in place of a capability. `cores`: how many this process may
    use.
    """

    isas: tuple[str, ...] = ()
    gpus: dict[str, dict[str, Any]] = field(default_factory=dict)
    cores: int = 1

    @classmethod
    def detect(cls) -> Machine:
        """This machine, detected once: workers of pytest-xdist read what the process that started them detected.

        Raises PreparationError if torch is not installed or cannot list its devices.
        """
        if _WORKER in os.environ and _DETECTED in os.environ:
            return cls.from_json(os.environ[_DETECTED])
        return _detected()

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Machine:
        data = json.loads(text)
        return cls(tuple(data["isas"]), data["gpus"], data["cores"])

    def targets(self) -> dict[str, Target]:
        """The table's targets, and a local target for each real GPU that matches no row."""
        known = dict(targets())
        for device in self.gpus:
            target = self.target_of(device)
            known.setdefault(target.name, target)
        return known

    def target_of(self, device: str) -> Target:
        """The target of the real GPU of this device type."""
        gpu = self.gpus[device]
        if "target" in gpu:
            return targets().get(gpu["target"]) or Target(
                f"{device}_local", device, device, confirmed="this device", local=True
            )
        return matching_target(device, tuple(gpu["capability"]), gpu["properties"])

    def ordinals(self, device: str) -> list[int]:
        """Torch's numbers of the GPUs of this type that have the target of the first one; none without a GPU."""
        return self.gpus[device].get("ordinals", [0]) if device in self.gpus else []

    def is_native(self, target: Target) -> bool:
        """Whether code for the target runs on this machine."""
        if target.device == "cpu":
            return target.isa in self.isas
        if target.isa and target.isa not in self.isas:
            return False  # of a vendor's device with C++ kernels
        return target.device in self.gpus and self.target_of(target.device).name == target.name

    def foreign_targets(self) -> list[str]:
        """Names of the cpu targets of another architecture than this machine's: no machine like it runs their code."""
        here = {ARCHITECTURES[isa] for isa in self.isas}
        cpus = (each for each in targets().values() if each.device == "cpu")
        return [each.name for each in cpus if ARCHITECTURES[each.isa] not in here]

    def describe(self, device: str) -> str:
        """`native (NVIDIA H200, cuda_sm90)`, `native (avx2, avx512)` or `deviceless`: as pytest's header shows it."""
        if device == "cpu":
            return f"native ({', '.join(self.isas) or 'no known instruction set'})"
        if device in self.gpus:
            return f"native ({self.gpus[device]['properties'].get('name', device)}, {self.target_of(device).name})"
        return "not here" if deviceless_problem(device) else "deviceless"

    def summary(self) -> dict[str, Any]:
        """What a result says of the machine that gave it, without names of the host or its user."""
        gpus = {device: str(gpu["properties"].get("name", device)) for device, gpu in self.gpus.items()}
        return {
            "processor": processor_name(),
            "architecture": platform.machine(),
            "cores": self.cores,
            "isas": list(self.isas),
            "gpus": gpus,
            "system": platform.system(),
            "python": platform.python_version(),
        }


def processor_name() -> str:
    """The processor's name from the kernel, else from Python."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


@functools.cache
def _detected() -> Machine:
    machine = Machine(isas=instruction_sets(), gpus=_gpus() | _vendor_gpus(), cores=len(os.sched_getaffinity(0)))
    os.environ[_DETECTED] = machine.to_json()
    return machine


def first_with_ordinals(device: str, gpus: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The first GPU, and the numbers of all that have its target. GPUs that match no row must be of the same size."""

    def identity(gpu: dict[str, Any]) -> tuple[Any, ...]:
        capability, properties = tuple(gpu["capability"]), gpu["properties"]
        name = matching_target(device, capability, properties).name
        return name, capability, multiprocessor_count(properties)

    ordinals = [ordinal for ordinal, gpu in enumerate(gpus) if identity(gpu) == identity(gpus[0])]
    return {**gpus[0], "ordinals": ordinals}


def _vendor_gpus() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    if os.environ.get(environment.HIDE_VENDORS):
        return found
    for name, device in vendor_devices().items():
        if names := probed(device):
            ordinals = [ordinal for ordinal, each in enumerate(names) if each == names[0]]
            row = targets().get(names[0])
            if names[0] and (row is None or row.device != name):
                known = ", ".join(each.name for each in targets().values() if each.device == name)
                raise VendorDeviceError(f"probe of {device.package} returns {names[0]!r}; known are {known}")
            product = row.description if row else name
            found[name] = {
                "capability": [0, 0],
                "target": names[0],
                "properties": {"name": product},
                "ordinals": ordinals,
            }
    return found


def instruction_sets() -> tuple[str, ...]:
    """The table's instruction sets that this CPU has. Without /proc/cpuinfo: neon on Arm, none elsewhere."""
    path = Path("/proc/cpuinfo")
    if not path.exists():
        return ("neon",) if platform.machine() in ("arm64", "aarch64") else ()
    flags: set[str] = set()
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        name, _, value = line.partition(":")
        if name.strip().lower() in ("flags", "features"):
            flags.update(value.split())
    if "sve" in flags and ctypes.CDLL(None).prctl(_SVE_LENGTH) & _SVE_LENGTH_BITS != _SVE256_BYTES:
        flags.remove("sve")
    return tuple(isa for isa, needed in _ISA_FLAGS.items() if needed <= flags)


def _gpus() -> dict[str, dict[str, Any]]:
    if not environment.torch_build().gpus:
        return {}
    command = [sys.executable, "-c", _GPU_QUERY, *GPUS]
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_QUERY_LIMIT)
    except subprocess.TimeoutExpired:
        raise environment.PreparationError(
            f"torch did not list its devices within {_QUERY_LIMIT} s, so a driver hangs: try nvidia-smi or xpu-smi, or "
            "hide the devices with CUDA_VISIBLE_DEVICES="
        ) from None
    for line in result.stdout.splitlines():
        if line.startswith("FOUND"):
            found = json.loads(line.removeprefix("FOUND"))
            return {device: first_with_ordinals(device, gpus) for device, gpus in found.items() if gpus}
    last = (result.stderr.strip().splitlines() or ["no output"])[-1]
    raise environment.PreparationError(f"torch cannot list its devices: {last}")
