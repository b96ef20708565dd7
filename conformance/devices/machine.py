"""What this machine has: instruction sets, real gpus, a compiler. Asked once, by one process, and passed to workers.

Nothing here imports torch into this process: a build with cuda or xpu is asked in a process of its own, because what
is really there has to be known before torch is imported.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from conformance.devices import environment
from conformance.devices.targets import Target, matching_target, targets

#: cpuinfo flags that an instruction set needs; the build flags of Inductor's own classes ask for the same.
_ISA_FLAGS = {
    "avx2": {"avx2", "fma", "f16c"},
    "avx512": {"avx512f", "avx512dq", "avx512vl", "avx512bw", "fma"},
    "neon": {"asimd"},
}

_ASK = """
import json, torch
found = {}
for device in ("cuda", "xpu"):
    module = getattr(torch, device, None)
    if module is not None and module.is_available():
        properties = module.get_device_properties(0)
        names = [name for name in dir(properties) if not name.startswith("_")]
        values = {name: getattr(properties, name) for name in names}
        plain = {name: v for name, v in values.items() if isinstance(v, (bool, int, float, str, list))}
        capability = list(module.get_device_capability(0)) if device == "cuda" else [0, 0]
        found[device] = {"capability": capability, "properties": plain}
print("FOUND" + json.dumps(found))
"""


@dataclass(frozen=True)
class Machine:
    """`isas`: instruction sets of the host, of those in the table. `gpus`: device type → capability and properties, as
    the device at hand reports them. `cores`: usable by this process.
    """

    isas: tuple[str, ...] = ()
    gpus: dict[str, dict[str, Any]] = field(default_factory=dict)
    cores: int = 1

    @classmethod
    def detect(cls) -> Machine:
        """Raises PreparationError where torch is not installed."""
        return cls(isas=instruction_sets(), gpus=_gpus(), cores=len(os.sched_getaffinity(0)))

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Machine:
        data = json.loads(text)
        return cls(tuple(data["isas"]), data["gpus"], data["cores"])

    def targets(self) -> dict[str, Target]:
        """The table, and a target of its own for each real gpu that matches no row."""
        known = dict(targets())
        for device in self.gpus:
            own = self.target_of(device)
            known.setdefault(own.name, own)
        return known

    def target_of(self, device: str) -> Target:
        gpu = self.gpus[device]
        return matching_target(device, tuple(gpu["capability"]), gpu["properties"])

    def is_native(self, target: Target) -> bool:
        """Whether code for the target runs here."""
        if target.device == "cpu":
            return target.isa in self.isas
        return target.device in self.gpus and self.target_of(target.device).name == target.name

    def describe(self, device: str) -> str:
        """Native (with what it is) or deviceless, for the header and the doctor."""
        if device == "cpu":
            return f"native ({', '.join(self.isas) or 'no known instruction set'})"
        if device in self.gpus:
            return f"native ({self.gpus[device]['properties'].get('name', device)}, {self.target_of(device).name})"
        return "deviceless"


def instruction_sets() -> tuple[str, ...]:
    """From the flags that the kernel reports; empty where there is no /proc/cpuinfo."""
    path = Path("/proc/cpuinfo")
    if not path.exists():
        return ("neon",) if platform.machine() in ("arm64", "aarch64") else ()
    flags: set[str] = set()
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        name, _, value = line.partition(":")
        if name.strip().lower() in ("flags", "features"):
            flags.update(value.split())
    return tuple(isa for isa, needed in _ISA_FLAGS.items() if needed <= flags)


def _gpus() -> dict[str, dict[str, Any]]:
    if not environment.torch_build().gpus:
        return {}
    result = subprocess.run([sys.executable, "-c", _ASK], capture_output=True, text=True, check=False)
    for line in result.stdout.splitlines():
        if line.startswith("FOUND"):
            return json.loads(line.removeprefix("FOUND"))
    last = (result.stderr.strip().splitlines() or ["no output"])[-1]
    raise environment.PreparationError(f"torch cannot say which devices it has: {last}")
