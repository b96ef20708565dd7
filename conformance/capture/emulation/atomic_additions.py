"""Additions that a GPU makes with atomic operations, computed on the CPU, one after the other.

An atomic addition to a number of 16 bits rounds each sum to 16 bits. The CPU's kernels add in float32 and round once.
So eager on a GPU has larger errors, which compiled code has too. The order of additions differs from call to call on a
GPU; here it is the order of the source.
"""

from __future__ import annotations

import torch


def scatter_add(value: torch.Tensor, dim: int, index: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    """A new tensor on the device of `value`, as torch.scatter_add gives it."""
    result = _scatter_add(value.cpu(), dim, index.cpu(), source.cpu())
    return result.to(value.device)


def scatter_add_in_place(value: torch.Tensor, dim: int, index: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    """The same, into `value`."""
    return value.copy_(_scatter_add(value.cpu(), dim, index.cpu(), source.cpu()))


def _scatter_add(value: torch.Tensor, dim: int, index: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    if value.dtype not in (torch.float16, torch.bfloat16) or not value.dim():
        return value.scatter_add(dim, index, source)
    result = value.clone()
    for position in range(index.size(dim)):  # in a slice, no element is added to twice
        where = index.narrow(dim, position, 1)
        each = source.narrow(dim, position, 1)[tuple(slice(size) for size in where.size())]
        result.scatter_(dim, where, result.gather(dim, where) + each)
    return result


#: Overload → kernel.
KERNELS = {"scatter_add": scatter_add, "scatter_add_": scatter_add_in_place}
