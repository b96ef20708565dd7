"""Cpu targets: the instruction set and the compiler that code is generated for, whatever the host has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from conformance.capture.patching.patch import Patch
from conformance.devices.targets import Target

#: Inductor's classes for the instruction sets of the table.
_CLASSES = {"avx2": "VecAVX2", "avx512": "VecAVX512", "neon": "VecNEON"}


def instruction_set(name: str) -> Any:
    """Inductor's own description of an instruction set (torch._inductor.cpu_vec_isa, 2.11 to 2.15)."""
    from torch._inductor import cpu_vec_isa

    return getattr(cpu_vec_isa, _CLASSES[name])()


def patches(target: Target) -> list[Patch]:
    """While a capture for a cpu target lasts, the instruction set is the target's."""
    chosen = _picking(target.isa)
    picked_by_name = "imported by name: both places decide, and different answers build code with the wrong flags"
    return [
        Patch("torch._inductor.cpu_vec_isa:pick_vec_isa", chosen, "the host's own instruction set would be used"),
        Patch("torch._inductor.codecache:pick_vec_isa", chosen, picked_by_name),
        Patch(
            f"torch._inductor.cpu_vec_isa:{_CLASSES[target.isa]}.__bool__",
            lambda _: lambda self: True,
            "it compiles and runs a probe: without compiler or hardware the code turns scalar, silently",
        ),
    ]


#: Only around code generation, never around a build: the build's flags are the real compiler's.
CODEGEN_PATCHES = [
    Patch("torch._inductor.cpp_builder:is_gcc", lambda _: lambda: True, "pragmas depend on the compiler's name"),
    Patch("torch._inductor.cpp_builder:is_msvc_cl", lambda _: lambda: False, "pragmas depend on the compiler's name"),
]


def _picking(name: str) -> Callable[[Any], Callable[..., Any]]:
    """The target's instruction set, unless Inductor's configuration asks for another width: then none, as there."""

    def make(_original: Any) -> Callable[..., Any]:
        from torch._inductor import config, cpu_vec_isa

        isa = instruction_set(name)
        return lambda: isa if config.cpp.simdlen in (None, isa.bit_width()) else cpu_vec_isa.invalid_vec_isa

    return make
