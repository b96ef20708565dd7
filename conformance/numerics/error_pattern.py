"""Where wrong elements lie, in words: a tail, a channel, every 16th. Most mistakes in generated code have a place."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch


def cluster(wrong: torch.Tensor) -> str:
    """`, all with index 2 of dimension 1` and the like, for a mask; "" where the places have nothing in common."""
    if int(wrong.sum()) < 2 or bool(wrong.all()):
        return ""
    along = [_places(wrong, dim) for dim in range(wrong.dim())]
    filled = math.prod(len(places) for places in along) == int(wrong.sum())
    found = [said for dim, places in enumerate(along) for said in _common(places, dim, wrong)]
    if found and filled:
        return f", all with {' and '.join(found)}"
    flat = wrong.flatten().nonzero().flatten()
    if said := _run(flat, wrong.numel()):
        return f", {said} in order"
    return f", all with {' and '.join(found)}" if found else ""


def _places(wrong: torch.Tensor, dim: int) -> torch.Tensor:
    """The indices of one dimension at which anything is wrong."""
    others = [d for d in range(wrong.dim()) if d != dim]
    return (wrong.any(dim=others) if others else wrong).nonzero().flatten()


def _common(places: torch.Tensor, dim: int, wrong: torch.Tensor) -> Iterator[str]:
    """What the indices of one dimension have in common."""
    size = wrong.shape[dim]
    if size == 1:
        return
    if len(places) == 1:
        yield f"index {int(places)} of dimension {dim}"
    elif len(places) < size and wrong.dim() > 1 and (said := _run(places, size)):
        yield f"an index of dimension {dim} among {said}"


def _run(places: torch.Tensor, size: int) -> str:
    """The last so many, the first so many, a range, or every so many; "" for anything else."""
    steps = places.diff().unique()
    if len(steps) != 1:
        return ""
    first, last, step, count = int(places[0]), int(places[-1]), int(steps), len(places)
    if step > 1:
        return f"every {step}th from {first}" if count > 2 else ""
    if last == size - 1:
        return f"the last {count} of {size}"
    return f"the first {count} of {size}" if first == 0 else f"{first} to {last} of {size}"
