"""Perturbed inputs: they show how far a float64 result moves when its inputs are rounded."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

import torch

from conformance.containers import copy_to
from conformance.numerics.outcome import Arguments

#: To see how sensitive a result is, the check perturbs the inputs this often. Only where a tensor disagrees.
PERTURBATIONS = 4


def perturbed_arguments(arguments: Arguments, seed: int, scale: float, narrow: torch.dtype | None) -> Arguments:
    """Float64 copies on the CPU. Each value is moved up or down, at random, by `scale` ulp of its former dtype.

    `narrow`: the dtype whose ulp is taken for float32; None for its own.
    """
    wide = arguments.copy_to("cpu", widen=True)
    generator = torch.Generator().manual_seed(seed)
    for (_, tensor), old in zip(wide.tensors().items(), arguments.tensors().values(), strict=True):
        if old.dtype.is_floating_point or old.dtype.is_complex:
            with torch.no_grad(), contextlib.suppress(RuntimeError):  # torch cannot write to an expanded tensor
                tensor.copy_(_perturbed(tensor.detach(), _rounded_to(old.dtype, narrow), scale, generator))
    return wide


def perturbed_cotangents(
    tensors: Mapping[str, torch.Tensor], seed: int, scale: float, narrow: torch.dtype | None
) -> dict[str, torch.Tensor]:
    """Float64 copies of cotangents on the CPU, perturbed like arguments."""
    generator = torch.Generator().manual_seed(PERTURBATIONS + seed)
    return {
        name: _perturbed(copy_to(t, "cpu", widen=True), _rounded_to(t.dtype, narrow), scale, generator)
        for name, t in tensors.items()
    }


def _rounded_to(dtype: torch.dtype, narrow: torch.dtype | None) -> torch.dtype:
    return narrow if narrow is not None and dtype == torch.float32 else dtype


def _perturbed(wide: torch.Tensor, dtype: torch.dtype, scale: float, generator: torch.Generator) -> torch.Tensor:
    """`wide` (float64 or complex128), each element moved by `scale` ulp of `dtype`."""
    signs = torch.randint(2, wide.shape, generator=generator, dtype=torch.float64) * 2 - 1
    return wide * (1 + signs * torch.finfo(dtype).eps * scale)
