"""Facts from the binaries of a capture's kernels for cuda or rocm: registers, spills, shared memory, widest access, and
tensor cores.

They are computed on request: compiling a kernel takes 0.1 to 2 s the first time. Inductor may launch a kernel in one of
several configurations. The number of a kernel is the largest of them: the most that a configuration needs, and for
`widest_access` the best. `_MEASURES` says how the numbers of several kernels are combined.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from conformance.capture.model import Capture
from conformance.capture.offline import compiler
from conformance.devices.environment import triton_version
from conformance.facts.model import Extractor, Fact, FactError, ObservedCapture

#: The beginning of a kernel's description if Triton made no binary of it; the last stage follows.
INCOMPLETE = "compiled as far as"

#: Fact → the function that combines the numbers of several kernels, and the unit.
_MEASURES: dict[str, tuple[Callable[[Sequence[int]], int], str]] = {
    "registers": (max, "a thread"),
    "spills": (max, "bytes a thread"),
    "shared_memory": (max, "bytes a block"),
    "widest_access": (min, "bits"),
    "tensor_cores": (sum, "instructions"),
}


def _extractor(name: str) -> Extractor:
    combine, unit = _MEASURES[name]

    def extract(observed: ObservedCapture) -> Fact:
        numbers = [
            (kernel.module, max(getattr(launch, name) for launch in launches))
            for kernel, launches in _compiled_kernels(observed.capture)
        ]
        parts = {"forward": 0, "backward": 0} | {
            part: combine([number for module, number in numbers if (module == "backward") == backward])
            for part, backward in (("forward", False), ("backward", True))
            if any((module == "backward") == backward for module, _ in numbers)
        }
        value = combine([number for _, number in numbers]) if numbers else 0
        return Fact(value, (f"{value} {unit}",), parts)

    return extract


#: By name, as facts/__init__.py lists them.
MEASURES: dict[str, Extractor] = {name: _extractor(name) for name in _MEASURES}


def _compiled_kernels(capture: Capture) -> list[tuple[compiler.Kernel, list[compiler.Launch]]]:
    """Each kernel with its configurations. Raises KernelError, and FactError for a capture for another device."""
    kernels = compiler.kernels(capture)
    other = next((kernel.device for kernel in kernels if kernel.device not in ("cuda", "rocm")), "")
    if other or any("cpu" in module.observed.get("devices", ()) for module in capture.modules):
        reason = f"Triton {triton_version()} makes no binary for {other}" if other else "Triton compiles no CPU kernels"
        raise FactError(
            f"only captures for cuda and rocm have {', '.join(_MEASURES)}: this one is for {capture.target} ({reason})"
        )
    return [(kernel, compiler.launches(kernel)) for kernel in kernels]


def lines(capture: Capture) -> list[str]:
    """A line for each configuration of each kernel, in order: its resources, or for xpu the last stage."""
    several = len({module.kind for module in capture.modules}) > 1
    described = []
    for kernel in compiler.kernels(capture):
        name = f"{kernel.module} {kernel.name}" if several else kernel.name
        described += [f"{name} {launch.config}: {_description(launch)}" for launch in compiler.launches(kernel)]
    return described


def incomplete_stage(capture: Capture) -> str:
    """The last stage of the kernels if the installed Triton makes no binary of them, else ""."""
    launches = [launch for kernel in compiler.kernels(capture) for launch in compiler.launches(kernel)]
    return next((launch.last for launch in launches if launch.last not in ("cubin", "hsaco", "spv")), "")


def _description(launch: compiler.Launch) -> str:
    """`registers 28, spills 0, shared_memory 0, widest_access 64, tensor_cores 0`, or the last stage."""
    numbers: Mapping[str, int | None] = {name: getattr(launch, name) for name in _MEASURES}
    if launch.registers is None:
        return f"{INCOMPLETE} {launch.last}"
    return ", ".join(f"{name} {number}" for name, number in numbers.items())
