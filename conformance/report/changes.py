"""The changes of a report: the causes of changed texts, as `python -m conformance review` finds them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from conformance.report.columns import Cell, Cells, Column
from conformance.review.cause_functions import CauseFunctions, compared_with, kept_functions
from conformance.review.review import Review, review_items, stored_text_finder
from conformance.storage.runs import Run
from conformance.storage.snapshots import torch_release


@dataclass
class Changes:
    """`data`: what the page shows of each cause. `old`: (case, column) → the text before the change."""

    data: list[dict[str, Any]] = field(default_factory=list)
    old: dict[tuple[str, Column], str] = field(default_factory=dict)

    @property
    def old_texts(self) -> Iterable[str]:
        return self.old.values()

    def old_text(self, cell: Cell) -> str:
        """Returns the text that the cell's text was compared with; "" if it did not change."""
        return self.old.get((cell.case, cell.column), "")


def changes_of(cells: Cells, runs: Iterable[Run] = ()) -> Changes:
    """Compares each text with the stored one, for cells whose check of code failed or whose text drifted.

    `runs`: where `review --blame` kept which functions make a cause.
    """
    found = Changes()
    functions = {key: each for run in runs for key, each in kept_functions(run).items()}
    for torch in dict.fromkeys(column.torch for column in cells.columns):
        records = [
            cell.record
            for cell in cells.cells.values()
            if cell.record is not None and cell.column.torch == torch and _may_differ(cell)
        ]
        _add(found, review_items(records, stored_text_finder()), functions)
    return found


def _may_differ(cell: Cell) -> bool:
    record = cell.record
    return record is not None and (bool(record.drift) or ("code" in record.checks and cell.state == "failed"))


def _add(found: Changes, review: Review, functions: Mapping[tuple[str, str], CauseFunctions]) -> None:
    for change in review.changed_items.values():
        column = Column(torch_release(change.item.torch), change.item.target)
        found.old[change.item.case, column] = change.texts.stored
    for cause in review.causes:
        releases = {torch_release(review.changed_items[each.name].item.torch) for each in cause.members}
        compared = {review.changed_items[each.name].compared_with for each in cause.members}
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
