"""Delta debugging: the fewest parts of a whole that still show something (Zeller and Hildebrandt, "Simplifying and
isolating failure-inducing input", 2002). Knows nothing of what the parts are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, TypeVar

Part = TypeVar("Part")
#: Whether some parts show it: yes, no, or they do not fit together.
Outcome = Literal["yes", "no", "unresolved"]


def minimise(parts: Sequence[Part], test: Callable[[Sequence[Part]], Outcome], limit: int = 1000) -> list[Part]:
    """The parts of which none can be left out: without any one of them the test says no more yes.

    `parts`: the test says yes for all of them. `limit`: of tests; when they are used up, returns the fewest found so
    far. The test is never asked twice for the same parts.
    """
    asked: dict[tuple[int, ...], Outcome] = {}

    def says_yes(chosen: Sequence[int]) -> bool:
        key = tuple(chosen)
        if key not in asked:
            if len(asked) >= limit:
                return False
            asked[key] = test([parts[place] for place in key])
        return asked[key] == "yes"

    current, count = list(range(len(parts))), 2
    while len(current) >= 2:
        size = max(1, -(-len(current) // count))
        pieces = [current[start : start + size] for start in range(0, len(current), size)]
        smaller = next((piece for piece in pieces if len(pieces) > 1 and says_yes(piece)), None)
        if smaller is not None:
            current, count = smaller, 2
            continue
        rest = next((each for each in _without_each(pieces) if len(pieces) > 2 and says_yes(each)), None)
        if rest is not None:
            current, count = rest, max(count - 1, 2)
            continue
        if len(pieces) >= len(current):
            break
        count = min(len(current), count * 2)
    return [parts[place] for place in current]


def _without_each(pieces: Sequence[list[int]]) -> list[list[int]]:
    return [[place for piece in pieces if piece is not left_out for place in piece] for left_out in pieces]
