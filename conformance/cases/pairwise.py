"""Combining axes pairwise: rows in which every two values of two axes stand together at least once."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

#: (axis, label), (axis, label): two values in one row.
_Pair = tuple[tuple[int, str], tuple[int, str]]


def pairwise_rows(axes: Sequence[Sequence[str]], rows: Iterable[tuple[str, ...]]) -> Iterator[tuple[str, ...]]:
    """Further rows, beside the given ones, until every pair has been there. The same ones each time.

    Most mistakes need no more than two values to meet, and there are far fewer pairs than combinations.
    """
    missing = {
        ((one, a), (other, b)): None
        for (one, left), (other, right) in itertools.combinations(enumerate(axes), 2)
        for a, b in itertools.product(left, right)
    }
    for row in rows:
        for pair in _pairs(row):
            missing.pop(pair, None)
    while missing:
        row = _row(axes, missing)
        for pair in _pairs(row):
            missing.pop(pair, None)
        yield row


def _pairs(row: Sequence[str]) -> Iterator[_Pair]:
    return itertools.combinations(enumerate(row), 2)


def _row(axes: Sequence[Sequence[str]], missing: dict[_Pair, None]) -> tuple[str, ...]:
    """The first missing pair, and on the other axes what brings the most of the missing ones."""
    row = dict(next(iter(missing)))
    for axis, labels in enumerate(axes):
        if axis not in row:
            row[axis] = max(labels, key=lambda label: _brought(row | {axis: label}, axis, missing))
    return tuple(row[axis] for axis in range(len(axes)))


def _brought(row: dict[int, str], axis: int, missing: dict[_Pair, None]) -> int:
    one = (axis, row[axis])
    return sum(tuple(sorted((one, other))) in missing for other in row.items())
