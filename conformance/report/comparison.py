"""Two sides of a report, A and B: runs of two configurations, releases or commits, or two targets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from conformance.facts.compile_work import is_changed
from conformance.report.changes import Changes, changes_between
from conformance.report.columns import Cell, Cells, cells_of
from conformance.report.history import step_between
from conformance.report.states import CANNOT_RUN, CODE_CHANGED, NOT_RUN, NOT_STORED, STATES
from conformance.storage.runs import Run

#: The names of the sides.
SIDES = ("A", "B")
#: States that say nothing of a side: it has no result, or there was nothing to compare its code with.
_WITHOUT_RESULT = (NOT_RUN, CANNOT_RUN)
#: What the sides' own baselines say of their code does not count: here one side is the baseline of the other.
_OF_BASELINES = (CODE_CHANGED, NOT_STORED)
#: Facts whose numbers a row shows: name of the value → what the page calls it.
_MEASURES = {
    "kernels": "kernels",
    "bytes.moved": "bytes moved",
    "buffers.allocated": "buffers",
    "memory": "bytes at the peak",
    "compile_work": "calls of the compile",
}


@dataclass(frozen=True)
class Side:
    """A run, or one target of it. `target`: "" for all."""

    run: Run
    target: str = ""


@dataclass(frozen=True)
class Comparison:
    """`sides`: their names in words. `cells`, `changes`: of both; a text of B is compared with that of A. `rows`: what
    differs, as data.

    `equal`: how many pairs do not differ. `alone`: how many items have a result on one side alone.
    """

    sides: list[str]
    cells: Cells
    changes: Changes
    rows: list[dict[str, Any]]
    equal: int
    alone: int

    def to_json(self) -> dict[str, Any]:
        return {"sides": self.sides, "rows": self.rows, "equal": self.equal, "alone": self.alone}


def compare(sides: Sequence[Side]) -> Comparison:
    """Compares two sides. Items are paired by case and target; by case, if each side is one target.

    Raises RunError for a run that cannot be read.
    """
    cells = Cells()
    by_target = not all(side.target for side in sides)
    pairs: dict[tuple[str, str], dict[str, Cell]] = {}
    for number, (name, side) in enumerate(zip(SIDES, sides, strict=True)):
        for cell in cells_of([side.run]).cells.values():
            if side.target in ("", cell.column.target):
                placed = replace(cell, run=number, column=replace(cell.column, side=name))
                cells.add(placed)
                pairs.setdefault((cell.case, cell.column.target if by_target else ""), {})[name] = placed
    both = [(pair["A"], pair["B"]) for pair in pairs.values() if len(pair) == 2]
    compared = [pair for pair in both if not any(each.state in _WITHOUT_RESULT for each in pair)]
    rows = [row for before, after in compared if (row := _row(before, after))]
    rows.sort(key=lambda each: (_KINDS.index(each["kind"]), each["states"][1], each["case"]))
    return Comparison(
        [f"{name}: {_named(side)}" for name, side in zip(SIDES, sides, strict=True)],
        cells,
        changes_between(compared),
        rows,
        equal=len(compared) - len(rows),
        alone=len(pairs) - len(compared),
    )


def _named(side: Side) -> str:
    name = side.run.folder.resolve().name
    return f"{name}, {side.target}" if side.target else name


_KINDS = ("regression", "mend", "difference")


def _row(before: Cell, after: Cell) -> dict[str, Any] | None:
    """What the page shows of a pair; None if nothing differs."""
    step = step_between(before, after)
    kind = _kind(before, after)
    one, other = before.record, after.record
    measures = _measures(*(each.fact_values if each else {} for each in (one, other)))
    if step is None or (kind == "difference" and not (step.facts or step.code or measures)):
        return None
    return {
        "case": after.case,
        "columns": [[each.column.torch, each.column.target] for each in (before, after)],
        "kind": kind,
        "states": [STATES.index(each.state) for each in (before, after)],
        "facts": list(step.facts),
        "code": step.code,
        "measures": measures,
        "seconds": [round(each.seconds, 2) if each else 0 for each in (one, other)],
    }


def _kind(before: Cell, after: Cell) -> str:
    one, other = (STATES.index("passed" if each.state in _OF_BASELINES else each.state) for each in (before, after))
    return "difference" if one == other else _KINDS[other > one]


def _measures(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Name → both numbers, of those that differ."""
    return {
        name: [before[key], after[key]]
        for key, name in _MEASURES.items()
        if key in before and key in after and _differs(key, before[key], after[key])
    }


def _differs(key: str, before: float, after: float) -> bool:
    return is_changed(before, after) if key == "compile_work" else before != after
