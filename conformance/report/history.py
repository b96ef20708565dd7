"""What changed between torch releases, for each case on each target: the state, the facts and the code."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

from conformance.normalize.text import canonical_text
from conformance.report.columns import Cell, Cells
from conformance.report.states import CANNOT_RUN, NOT_RUN, NOT_STORED
from conformance.storage.snapshot_format import split_parts


@dataclass(frozen=True)
class Step:
    """What differs on a target between two releases, `before` and `torch`, such as "2.13" and "2.15".

    `state`: the two states, of STATES; None if they are equal. `facts`: name → the lines of both, "" where one has
    no such fact. `code`: whether the code differs.
    """

    case: str
    target: str
    before: str
    torch: str
    state: tuple[str, str] | None
    facts: dict[str, tuple[str, str]]
    code: bool

    def to_json(self) -> dict[str, Any]:
        """As docs/formats.md describes it."""
        return {
            "case": self.case,
            "target": self.target,
            "before": self.before,
            "torch": self.torch,
            "state": list(self.state) if self.state else None,
            "facts": {name: list(lines) for name, lines in self.facts.items()},
            "code": self.code,
        }


def history(cells: Cells) -> list[Step]:
    """The steps with a difference, sorted by case. A step leads from one release to the next with a result."""
    series: dict[tuple[str, str, str], list[Cell]] = {}
    for column in cells.columns:
        for case in cells.cases:
            cell = cells.cells.get((case, column))
            if cell is not None and cell.record is not None and cell.state not in (NOT_RUN, CANNOT_RUN):
                series.setdefault((case, column.target, column.side), []).append(cell)
    steps = (step_between(*pair) for _, found in sorted(series.items()) for pair in itertools.pairwise(found))
    return [step for step in steps if step]


def step_between(before: Cell, after: Cell) -> Step | None:
    """What differs between two cells with a result; None if nothing does."""
    one, other = before.record, after.record
    if one is None or other is None:
        return None
    states = (before.state, after.state)
    state = states if before.state != after.state and NOT_STORED not in states else None
    both = bool(one.text and other.text)
    names = {**one.facts, **other.facts} if both else {}
    pairs = {name: (one.facts.get(name, ""), other.facts.get(name, "")) for name in names}
    facts = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
    code = both and one.text != other.text and _code(one.text) != _code(other.text)
    if not (state or facts or code):
        return None
    return Step(after.case, after.column.target, before.column.torch, after.column.torch, state, facts, code)


def _code(text: str) -> list[str]:
    """The parts of a snapshot's text after its facts."""
    return [part for _, part in split_parts(canonical_text(text))[1:]]
