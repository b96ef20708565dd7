"""CPU kernels: code is generated for the target's instruction set and for g++, independent of this machine.

A GPU's graph can have CPU kernels too, such as the counter of a loop.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from conformance.capture.patching.patch import Patch
from conformance.devices import environment
from conformance.devices.environment import PreparationError
from conformance.devices.machine import instruction_sets
from conformance.devices.targets import ARCHITECTURES

#: Bytes of the caches of a core, for all targets: those of a server of 2023.
_CACHES = {"l1d_cache_size": 48 * 1024, "l2_cache_size": 2 * 1024 * 1024}
#: Instruction set of a target → Inductor's class for it.
_CLASSES = {
    "avx2": "VecAVX2",
    "avx512": "VecAVX512",
    "amx": "VecAMX",
    "neon": "VecNEON",
    "sve256": "VecSVE",
    "vsx": "VecVSX",
    "zvector": "VecZVECTOR",
}
_X86 = "x86_64"


def instruction_set(name: str) -> Any:
    """Inductor's own object for an instruction set (torch._inductor.cpu_vec_isa)."""
    from torch._inductor import cpu_vec_isa

    return getattr(cpu_vec_isa, _class_of(name))()


def _class_of(isa: str) -> str:
    before = isa == "sve256" and environment.torch_build().release < (2, 13)
    return "VecSVE256" if before else _CLASSES[isa]


def is_of_this_architecture(isa: str) -> bool:
    """Whether the compiler of this machine makes code for an instruction set, be it of this processor or not."""
    return ARCHITECTURES[isa] in {ARCHITECTURES[each] for each in instruction_sets()}


def use_natively(isa: str) -> None:
    """Prepares this process for code of an instruction set that the processor has. Raises PreparationError.

    Linux lets a process use the tiles of AMX once it asks for them, or ends it by a signal. Inductor asks while it
    probes the instruction set, and captures leave that out. Private: torch.cpu has no public function that asks.
    """
    import torch

    if isa == "amx" and not torch.cpu._init_amx():
        raise PreparationError("Linux refuses this process the tiles of AMX: select other targets than cpu_amx")


def patches(isa: str, ask: Callable[[], object] | None = None) -> list[Patch]:
    """The patches that make Inductor generate code for an instruction set of the table: `avx2`.

    `ask`: called where Inductor chooses the kernel of a product from a template.
    """
    pick = _pick_isa(isa)
    imported_by_name = "codecache imports it by name; if both differ, code is built with the wrong flags"
    of_products = "it imports it by name; templates of products would be those of this machine, such as of AMX"
    return [
        Patch("torch._inductor.cpu_vec_isa:pick_vec_isa", pick, "this machine's instruction set would be used"),
        Patch("torch._inductor.codecache:pick_vec_isa", pick, imported_by_name),
        Patch("torch._inductor.codegen.cpp_micro_gemm:pick_vec_isa", _with_question(pick, ask), of_products),
        *_architecture_patches(isa),
        _cache_patch(),
        *(_amx_patches() if isa == "amx" else ()),
        Patch(
            f"torch._inductor.cpu_vec_isa:{_class_of(isa)}.__bool__",
            lambda _: lambda self: True,
            "it compiles and runs a probe; without compiler or hardware, the code silently becomes scalar",
        ),
    ]


def _amx_patches() -> list[Patch]:
    """The patches that answer for the first processors with AMX: all have AVX512_BF16, and none has AMX-FP16."""
    why = "the probe that finds it out is left out, so weights of 8 bits would not get AMX's kernel"
    later = "later processors have it: products of float16 would be those of this machine"
    return [
        Patch("torch._inductor.cpu_vec_isa:VecAMX._is_avx512_bf16_supported", lambda _: True, why),
        Patch("torch.cpu:_is_amx_fp16_supported", _returns(False), later, optional=True),
    ]


def _architecture_patches(isa: str) -> list[Patch]:
    """The patch of the one question about the architecture, for a target of another one than this machine's."""
    if is_of_this_architecture(isa):
        return []
    is_x86 = ARCHITECTURES[isa] == _X86
    return [Patch("torch.cpu:_is_avx2_supported", lambda _: lambda: is_x86, "flex attention asks it, and refuses Arm")]


def _cache_patch() -> Patch:
    """The patch that gives templates of products the cache sizes of the table: they choose blocks by them."""
    why = "blocks of templates of products would depend on the caches of this machine"
    return Patch("torch.cpu:get_capabilities", _with_caches, why)


def _returns(value: int) -> Callable[[Any], Callable[..., int]]:
    return lambda _original: lambda: value


def _with_caches(original: Callable[[], Mapping[str, Any]]) -> Callable[[], Mapping[str, Any]]:
    return lambda: {**original(), **_CACHES}


@functools.cache
def isa_beside_gpu() -> str:
    """The instruction set of CPU kernels in a GPU's graph: one that all machines of this architecture have.

    Without it, Inductor probes each instruction set once a process: about 40 s if several processes do so at once.
    """
    return next((isa for isa in ("avx2", "neon") if isa in instruction_sets()), "")


#: Applied only during code generation. A build needs the flags of the real compiler.
CODEGEN_PATCHES = [
    Patch("torch._inductor.cpp_builder:is_gcc", lambda _: lambda: True, "pragmas depend on the compiler's name"),
    Patch("torch._inductor.cpp_builder:is_msvc_cl", lambda _: lambda: False, "pragmas depend on the compiler's name"),
]


def _with_question(
    make: Callable[[Any], Callable[..., Any]], ask: Callable[[], object] | None
) -> Callable[[Any], Callable[..., Any]]:
    """Makes what `make` makes, and calls `ask` with each call of it."""
    if ask is None:
        return make

    def pick_vec_isa(pick: Callable[[], Any]) -> Any:
        ask()
        return pick()

    return lambda original: functools.partial(pick_vec_isa, make(original))


def _pick_isa(name: str) -> Callable[[Any], Callable[..., Any]]:
    """A replacement of pick_vec_isa: the target's instruction set, or none if the options ask for another width."""

    def make(_original: Any) -> Callable[..., Any]:
        from torch._inductor import config, cpu_vec_isa

        isa = instruction_set(name)
        return lambda: isa if config.cpp.simdlen in (None, isa.bit_width()) else cpu_vec_isa.invalid_vec_isa

    return make
