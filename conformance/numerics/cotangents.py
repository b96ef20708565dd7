"""Cotangents: the gradients of a case's outputs, with which its backward is called.

Autograd gives a backward cotangents of any layout. `y.sum(0)` gives one row, expanded to y's shape, and a function that
transposes y gives a transposed cotangent. Inductor compiles the backward for one layout, so what surrounds the kernels
must bring all others into it.
"""

from __future__ import annotations

import torch

from conformance.cases.tolerance_policy import COTANGENT_CALLS

EXPANDED, _PERMUTED = COTANGENT_CALLS


def random_cotangent(shape: torch.Size, dtype: torch.dtype, seed: int, layout: str = "") -> torch.Tensor:
    """A CPU tensor of this shape and dtype with normally distributed values of both signs.

    Cotangents of ones, as `sum().backward()` has them, would hide most errors.
    `layout`: "" for contiguous. "expanded cotangents": one row, repeated along the first dimension with stride 0 (with
    one dimension: one number). One number in all dimensions, as `y.sum()` gives, would make the gradient of most
    normalisations 0. "permuted cotangents": channels_last with 4 or 5 dimensions; every other element of the storage
    with one dimension; else the last two dimensions are swapped in memory.
    """
    generator = torch.Generator().manual_seed(seed)
    wide = torch.complex128 if dtype.is_complex else torch.float64
    if layout == EXPANDED:
        return torch.randn(shape[1:], dtype=wide, generator=generator).to(dtype).expand(shape)
    values = torch.randn(shape, dtype=wide, generator=generator).to(dtype)
    return _permuted(values) if layout == _PERMUTED else values


def _permuted(values: torch.Tensor) -> torch.Tensor:
    if values.dim() == 0:
        return values
    if values.dim() == 1:
        return torch.stack([values, values], 1)[:, 0]
    if values.dim() in (4, 5):
        return values.contiguous(memory_format=torch.channels_last if values.dim() == 4 else torch.channels_last_3d)
    return values.mT.contiguous().mT
