"""Pairwise combination of axes: few rows in which every two values of two axes occur together at least once."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

#: Two values of one row, each as (number of the axis, label).
_Pair = tuple[tuple[int, str], tuple[int, str]]


def pairwise_rows(axes: Sequence[Sequence[str]], rows: Iterable[tuple[str, ...]]) -> Iterator[tuple[str, ...]]:
    """The rows to add to `rows`, so that every pair of labels occurs in one of them. Deterministic.

    `axes`: the labels of each axis. A row has one label of each axis. Most mistakes need only two values to meet, and
    there are far fewer pairs than combinations.
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
    """A row with the first missing pair. On the other axes it has the labels that add the most missing pairs."""
    row = dict(next(iter(missing)))
    for axis, labels in enumerate(axes):
        if axis not in row:
            row[axis] = max(labels, key=lambda label: _missing_pairs(row | {axis: label}, axis, missing))
    return tuple(row[axis] for axis in range(len(axes)))


def _missing_pairs(row: dict[int, str], axis: int, missing: dict[_Pair, None]) -> int:
    """How many missing pairs this axis's label makes with the other labels of the row."""
    one = (axis, row[axis])
    return sum(tuple(sorted((one, other))) in missing for other in row.items())
