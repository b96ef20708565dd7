"""What the binaries of a cuda capture's kernels say: registers, spills, shared memory, widest access, tensor cores.

Compiling takes 0.1 to 2 s a kernel the first time, so these are worked out when they are asked for by name. A number is
of all configurations that Inductor may launch a kernel with: the most that one of them needs, and for `widest_access`
the widest of them, which is the best. Of several kernels: see `_MEASURES`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from conformance.capture.model import Capture
from conformance.capture.offline import compiler
from conformance.devices.environment import triton_version
from conformance.facts.model import Extractor, Fact, FactError, Seen

#: How the line of a kernel begins that is no binary: Triton compiles it up to the stage that follows.
PARTLY = "compiled as far as"

#: Of each kernel, what the fact is made of, how those of several kernels are put together, and the unit.
_MEASURES: dict[str, tuple[Callable[[Sequence[int]], int], str]] = {
    "registers": (max, "a thread"),
    "spills": (max, "bytes a thread"),
    "shared_memory": (max, "bytes a block"),
    "widest_access": (min, "bits"),
    "tensor_cores": (sum, "instructions"),
}


def _extractor(name: str) -> Extractor:
    together, unit = _MEASURES[name]

    def extract(seen: Seen) -> Fact:
        numbers = [
            (kernel.module, max(getattr(launch, name) for launch in found)) for kernel, found in binaries(seen.capture)
        ]
        parts = {"forward": 0, "backward": 0} | {
            part: together([number for module, number in numbers if (module == "backward") == backward])
            for part, backward in (("forward", False), ("backward", True))
            if any((module == "backward") == backward for module, _ in numbers)
        }
        value = together([number for _, number in numbers]) if numbers else 0
        return Fact(value, (f"{value} {unit}",), parts)

    return extract


#: By name, as facts/__init__.py lists them.
MEASURES: dict[str, Extractor] = {name: _extractor(name) for name in _MEASURES}


def binaries(capture: Capture) -> list[tuple[compiler.Kernel, list[compiler.Launch]]]:
    """Every kernel with what it is compiled to. Raises KernelError, and FactError where no binary can be made."""
    kernels = compiler.kernels(capture)
    other = next((kernel.device for kernel in kernels if kernel.device != "cuda"), "")
    if other or any("cpu" in module.observed.get("devices", ()) for module in capture.modules):
        why = f"Triton {triton_version()} makes no binary for {other}" if other else "cpu kernels are not Triton's"
        raise FactError(f"{', '.join(_MEASURES)} are facts of cuda captures, not of {capture.target}'s: {why}")
    return [(kernel, compiler.launches(kernel)) for kernel in kernels]


def lines(capture: Capture) -> list[str]:
    """A line for each configuration of each kernel, in their order; for xpu, the stage that it got to."""
    several = len({module.kind for module in capture.modules}) > 1
    found = []
    for kernel in compiler.kernels(capture):
        name = f"{kernel.module} {kernel.name}" if several else kernel.name
        found += [f"{name} {launch.config}: {said(launch)}" for launch in compiler.launches(kernel)]
    return found


def ended(capture: Capture) -> str:
    """The stage that kernels end at where the installed Triton makes no binary of them, else ""."""
    launches = [launch for kernel in compiler.kernels(capture) for launch in compiler.launches(kernel)]
    return next((launch.last for launch in launches if launch.last not in ("cubin", "spv")), "")


def said(launch: compiler.Launch) -> str:
    """`registers 28, spills 0, shared_memory 0, widest_access 64, tensor_cores 0`, or the last stage there is."""
    numbers: Mapping[str, int | None] = {name: getattr(launch, name) for name in _MEASURES}
    if launch.registers is None:
        return f"{PARTLY} {launch.last}"
    return ", ".join(f"{name} {number}" for name, number in numbers.items())
