"""The changes of a report: the causes of changed texts, as `python -m conformance review` finds them."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from conformance.report.columns import Cell, Cells, Column
from conformance.report.commands import options_of
from conformance.review.cause_functions import CauseFunctions, compared_with, kept_functions
from conformance.review.cost_causes import WORK
from conformance.review.review import FindText, Previous, Review, review_items, run_text_finder, stored_text_finder
from conformance.storage.check_results import Outcome
from conformance.storage.runs import ItemRecord, Run, RunError, open_run
from conformance.storage.snapshots import torch_release


@dataclass
class Changes:
    """`data`: what the page shows of each cause. `old`: (case, column) → the text before the change."""

    data: list[dict[str, Any]] = field(default_factory=list)
    old: dict[tuple[str, Column], str] = field(default_factory=dict)

    @property
    def old_texts(self) -> Iterable[str]:
        return self.old.values()

    def sorted(self) -> Changes:
        """These changes, the cause with the most texts first, whatever its release."""
        return replace(self, data=sorted(self.data, key=lambda each: -len(each["members"])))

    def old_text(self, cell: Cell) -> str:
        """Returns the text that the cell's text was compared with; "" if it did not change."""
        return self.old.get((cell.case, cell.column), "")


def changes_of(cells: Cells, runs: Sequence[Run] = ()) -> Changes:
    """Compares the text of each cell whose check of code failed, or that drifted, with what its run compared it with.
    With a baseline, also of each cell whose work was counted.

    `runs`: those of the cells. `review --blame` kept in them which functions make a cause.
    """
    found = Changes()
    finders = [_finder(run) for run in runs] or [stored_text_finder()]
    counted = {number for number, run in enumerate(runs) if _baseline(run)}
    functions = {key: each for run in runs for key, each in kept_functions(run).items()}
    for torch in dict.fromkeys(column.torch for column in cells.columns):
        records = [
            (cell.record, finders[number])
            for cell in cells.cells.values()
            if cell.record is not None and cell.column.torch == torch
            for number in [min(cell.run, len(finders) - 1)]
            if _may_differ(cell.record) or (number in counted and WORK in cell.record.fact_values)
        ]
        _add(found, review_items([record for record, _ in records], _finder_of_all(records)), functions)
    return found.sorted()


def _finder_of_all(records: Iterable[tuple[ItemRecord, FindText]]) -> FindText:
    """Finds the text of each record as its own finder does."""
    finders = {record.name: finder for record, finder in records}
    return lambda item: finders[item.name](item)


def changes_between(pairs: Sequence[tuple[Cell, Cell]]) -> Changes:
    """Compares the text of the second cell of each pair with that of the first. They are sides A and B."""
    found = Changes()
    for torch in dict.fromkeys(after.column.torch for _, after in pairs):
        of_torch = [(before.record, after.record) for before, after in pairs if after.column.torch == torch]
        befores = {after.name: before for before, after in of_torch if before and after and before.text}
        finder = functools.partial(_text_of_side, befores)
        review = review_items([after for _, after in of_torch if after], finder)
        _add(found, review, {}, "B")
    return found.sorted()


def _text_of_side(befores: Mapping[str, ItemRecord], item: ItemRecord) -> Previous | None:
    before = befores.get(item.name)
    return Previous(before.text, "A", before.fact_values) if before else None


def _baseline(run: Run) -> str:
    return options_of(run.description()).get("baseline", "")


def _finder(run: Run) -> FindText:
    """Finds what the texts of a run were compared with: the run's baseline if it had one. One that is not here has no
    text.
    """
    name = _baseline(run)
    if not name:
        return stored_text_finder()
    try:
        return run_text_finder(open_run(run.root or Path.cwd(), name), name)
    except RunError:
        return lambda _: None


def _may_differ(record: ItemRecord) -> bool:
    return bool(record.drift) or record.outcome("code") is Outcome.FAILED


def _add(found: Changes, review: Review, functions: Mapping[tuple[str, str], CauseFunctions], side: str = "") -> None:
    for change in review.changed_items.values():
        column = Column(torch_release(change.item.torch), change.item.target, side)
        found.old[change.item.case, column] = change.texts.stored
    for cause in review.causes:
        members = [review.item(each.name) for each in cause.members]
        releases = {torch_release(each.item.torch) for each in members}
        compared = {each.compared_with for each in members}
        blamed = functions.get((compared_with(review, cause), cause.id))
        found.data.append(
            {
                "id": cause.id,
                "kind": cause.kind,
                "title": cause.title,
                "reach": cause.reach,
                "torch": sorted(releases),
                "compared_with": sorted(compared - {""}),
                "members": [[each.case, each.target] for each in cause.members],
                "functions": list(blamed.functions) if blamed else [],
                "consequences": [[each.title, each.texts] for each in cause.consequences],
                "example": {
                    "case": cause.example.item.case,
                    "target": cause.example.item.target,
                    "where": cause.example.where,
                    "hunk": list(cause.example.hunk),
                },
            }
        )
