"""Searches a row of commits for the one that changed the answer, by halves. It knows neither git nor torch.

Two commits behave the same if nothing that either executes differs. So only the commits between that change what the
two ends execute can be the cause, and once no other is left, its answer is proved and not guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

#: While more commits are left, each counts as relevant: to read what each changes takes longer than to halve them.
_COARSE = 400

Verdict = Literal["good", "changed", "skipped"]


@dataclass
class Found:
    """`suspects`: the commits that may have changed the answer, the oldest first: one, unless `skipped` has others.

    `before`, `after`: measured commits with the answers of before and after. `skipped`: those of the suspects that
    could not be measured. `tried`: every measured commit in order, with its verdict; the two ends are not among them.
    `relevant`: how many commits could be the cause at first.
    """

    suspects: list[str]
    before: str
    after: str
    skipped: list[str] = field(default_factory=list)
    tried: list[tuple[str, Verdict]] = field(default_factory=list)
    relevant: int = 0


class NoCauseError(Exception):
    """No commit between the two changes what they execute, and yet their answers differ."""


def search(
    commits: Sequence[str],
    good: str,
    measure: Callable[[str], Verdict],
    is_relevant: Callable[[str, str, str], bool],
) -> Found:
    """Finds the first commit with another answer than `good`.

    `commits`: those after `good`, the oldest first; the last one has another answer. `measure`: gives the verdict on
    one. `is_relevant`: whether a commit changes what one of two measured commits executes: commit, one, other.

    Raises NoCauseError, and what `measure` raises.
    """
    low, high = -1, len(commits) - 1  # places; -1 is `good`
    verdicts: dict[int, Verdict] = {}
    tried: list[tuple[str, Verdict]] = []
    first_count = skipped_in_a_row = 0
    while True:
        one, other = (commits[low] if low >= 0 else good), commits[high]
        between = range(low + 1, high + 1)
        is_coarse = len(between) > _COARSE
        open_places = [each for each in between if is_coarse or is_relevant(commits[each], one, other)]
        if not open_places:
            raise NoCauseError
        first_count = first_count or len(open_places)
        inner = [place for place in open_places[:-1] if place not in verdicts]
        if not inner:
            suspects = open_places
            return Found(
                [commits[place] for place in suspects],
                one,
                other,
                [commits[place] for place in suspects[:-1]],
                tried,
                first_count,
            )
        place = _next_place(inner, skipped_in_a_row)
        verdict = verdicts[place] = measure(commits[place])
        tried.append((commits[place], verdict))
        skipped_in_a_row = skipped_in_a_row + 1 if verdict == "skipped" else 0
        if verdict == "good":
            low = place
        elif verdict == "changed":
            high = place


def _next_place(places: Sequence[int], skipped: int) -> int:
    """The middle one; after skipped ones, further and further from it: neighbours often have the same fault."""
    for number, fraction in enumerate(_fractions()):
        if number == skipped:
            return places[min(int(len(places) * fraction), len(places) - 1)]
    raise AssertionError


def _fractions() -> Iterator[float]:
    """1/2, 1/4, 3/4, 1/8, 5/8, …"""
    number = 1
    while True:
        value, denominator, rest = 0.0, 1.0, number
        while rest:
            denominator *= 2
            value += (rest & 1) / denominator
            rest >>= 1
        yield value
        number += 1
