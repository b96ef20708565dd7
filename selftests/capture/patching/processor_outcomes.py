"""Outcomes of patches that hide this machine's processor. Import it after `prepare()`, as patch_outcomes.py does."""

from __future__ import annotations

from collections.abc import Callable
from unittest import mock

import torch

from conformance.capture import isolation
from conformance.devices.targets import targets


def flags(target: str) -> str:
    """The instruction set that the build of the C++ code uses."""
    from torch._inductor import codecache

    isas = []
    with isolation.isolated(targets()[target], "deviceless", {}):
        isas.append(codecache.pick_vec_isa())
    return str(isas)


def of_products(target: str) -> str:
    """The instruction set of templates of products."""
    from torch._inductor.codegen import cpp_micro_gemm

    with isolation.isolated(targets()[target], "deviceless", {}):
        return str(cpp_micro_gemm.pick_vec_isa())


def has_avx2(target: str) -> str:
    """Wanted of cpu_neon, where this machine's answer differs."""
    with isolation.isolated(targets()[target], "deviceless", {}):
        return str(torch.cpu._is_avx2_supported())


def of_amx(target: str) -> str:
    """The flags of AVX512_BF16, which kernels of 8-bit weights need."""
    from torch._inductor import codecache

    with isolation.isolated(targets()[target], "deviceless", {}):
        return codecache.pick_vec_isa().build_arch_flags()


def has_amx_fp16(target: str) -> str:
    """On a processor that has it."""
    here = mock.patch.object(torch.cpu, "_is_amx_fp16_supported", return_value=True)
    with here, isolation.isolated(targets()[target], "deviceless", {}):
        return str(torch.cpu._is_amx_fp16_supported())


def caches(target: str) -> str:
    with isolation.isolated(targets()[target], "deviceless", {}):
        return str([torch.cpu.get_capabilities().get(f"l{level}_cache_size") for level in ("1d", "2")])


def cache_of(getter: str) -> Callable[[str], str]:
    def size(target: str) -> str:
        with isolation.isolated(targets()[target], "deviceless", {}):
            return str(getattr(torch._C._cpu, getter)())

    return size
