"""Describes where wrong elements lie: in a tail, in one channel, at every 16th index.

Most errors in generated code leave such a pattern.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch


def error_pattern(wrong: torch.Tensor) -> str:
    """The pattern of the true elements, such as `, all with index 2 of dimension 1`, or "" where there is none.

    `wrong`: bool, of any shape.
    """
    if int(wrong.sum()) < 2 or bool(wrong.all()):
        return ""
    by_dimension = [_wrong_indices(wrong, dim) for dim in range(wrong.dim())]
    is_full_grid = math.prod(len(indices) for indices in by_dimension) == int(wrong.sum())
    patterns = [text for dim, indices in enumerate(by_dimension) for text in _dimension_pattern(indices, dim, wrong)]
    if patterns and is_full_grid:
        return f", all with {' and '.join(patterns)}"
    flat_indices = wrong.flatten().nonzero().flatten()
    if pattern := _index_pattern(flat_indices, wrong.numel()):
        return f", {pattern} in order"
    return f", all with {' and '.join(patterns)}" if patterns else ""


def _wrong_indices(wrong: torch.Tensor, dim: int) -> torch.Tensor:
    """The indices of one dimension at which any element is wrong: int64, 1-dimensional, ascending."""
    others = [d for d in range(wrong.dim()) if d != dim]
    return (wrong.any(dim=others) if others else wrong).nonzero().flatten()


def _dimension_pattern(indices: torch.Tensor, dim: int, wrong: torch.Tensor) -> Iterator[str]:
    """The pattern of the wrong indices of one dimension, or nothing."""
    size = wrong.shape[dim]
    if size == 1:
        return
    if len(indices) == 1:
        yield f"index {int(indices)} of dimension {dim}"
    elif len(indices) < size and wrong.dim() > 1 and (pattern := _index_pattern(indices, size)):
        yield f"an index of dimension {dim} among {pattern}"


def _index_pattern(indices: torch.Tensor, size: int) -> str:
    """The last n, the first n, a range, or every nth of `size` indices; "" for any other set.

    `indices`: int64, 1-dimensional, ascending.
    """
    steps = indices.diff().unique()
    if len(steps) != 1:
        return ""
    first, last, step, count = int(indices[0]), int(indices[-1]), int(steps), len(indices)
    if step > 1:
        return f"every {step}th from {first}" if count > 2 else ""
    if last == size - 1:
        return f"the last {count} of {size}"
    return f"the first {count} of {size}" if first == 0 else f"{first} to {last} of {size}"
