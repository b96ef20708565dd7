"""Special values that are drawn: floating numbers of every exponent, and integers of the whole range."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

#: An input's `low` and `high`; None, None if it declares neither.
Bounds = tuple[float | None, float | None]


def spread_exponents(
    dtype: torch.dtype, bounds: Bounds, count: int, generator: torch.Generator, *, share: float = 1.0
) -> torch.Tensor:
    """Normal numbers of a real dtype, positive and negative, as a tensor of one dimension.

    Their exponents are spread evenly over the dtype's range: one number for each part of it. The order is random.
    `share`: the share of that range, around the exponent 0. Within the bounds, if there are any; then it may be empty.
    """
    import torch

    sides = [side for side in _sides(dtype, bounds, share) if side[1] < side[2]]
    if not sides or not count:
        return torch.empty(0, dtype=dtype)
    parts = (torch.arange(count) + torch.rand(count, generator=generator, dtype=torch.float64)) / count
    parts = parts[torch.randperm(count, generator=generator)]
    chosen = torch.randint(len(sides), (count,), generator=generator)
    sign, low, high = torch.tensor(sides, dtype=torch.float64)[chosen].unbind(-1)
    magnitudes = torch.exp2(low.log2() + parts * (high.log2() - low.log2()))
    return (sign * torch.minimum(torch.maximum(magnitudes, low), high)).to(dtype)


def _sides(dtype: torch.dtype, bounds: Bounds, share: float) -> list[tuple[float, float, float]]:
    """(sign, smallest, largest magnitude) of the positive and of the negative numbers."""
    import torch

    info = torch.finfo(dtype)
    smallest, largest = info.tiny**share, info.max**share
    low, high = (-math.inf if bounds[0] is None else bounds[0]), (math.inf if bounds[1] is None else bounds[1])
    return [
        (1.0, max(smallest, low), min(largest, high)),
        (-1.0, max(smallest, -high), min(largest, -low)),
    ]


def uniform_integers(dtype: torch.dtype, bounds: Bounds, count: int, generator: torch.Generator) -> torch.Tensor:
    """Integers, uniform over the whole range of the dtype, as a tensor of one dimension.

    Empty with bounds, and for 8 bits: there the ordinary values have the whole range.
    """
    import torch

    if bounds != (None, None) or dtype.itemsize == 1:
        return torch.empty(0, dtype=dtype)
    return torch.randint(256, (count * dtype.itemsize,), dtype=torch.uint8, generator=generator).view(dtype)
