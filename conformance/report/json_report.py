"""A report as JSON, for programs. docs/formats.md and storage/schemas/output.json describe it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from conformance.report.changes import Changes
from conformance.report.columns import Cell, Cells
from conformance.report.history import history
from conformance.report.states import STATES
from conformance.storage.runs import ItemRecord, Run

FORMAT = "conformance report 2"
#: Fields of a record that an item has as they are.
_FIELDS = ("mode", "drift", "missed", "reused", "shared_with", "needs_fp64", "same_bits", "seconds")


def json_report(runs: Sequence[Run], cells: Cells, changes: Changes) -> str:
    """Returns the text of the file. `counts` has each state of each torch release and target; their sum is `total`."""
    names = [run.folder.resolve().name for run in runs]
    causes = _causes(changes)
    order = {column: number for number, column in enumerate(cells.columns)}
    ordered = sorted(cells.cells.values(), key=lambda each: (each.case, order[each.column]))
    data = {
        "format": FORMAT,
        "runs": [run.description() | {"name": name} for run, name in zip(runs, names, strict=True)],
        "replaced": cells.replaced,
        "total": len(ordered),
        "counts": _counts(cells),
        "items": [_item(cell, names, causes) for cell in ordered],
        "changes": changes.data,
        "history": [step.to_json() for step in history(cells)],
    }
    return json.dumps(data, allow_nan=False) + "\n"


def _counts(cells: Cells) -> list[dict[str, Any]]:
    counts = Counter((cell.column, cell.state) for cell in cells.cells.values())
    return [
        {
            "torch": column.torch,
            "target": column.target,
            "states": {state: counts[column, state] for state in STATES},
        }
        for column in cells.columns
    ]


def _item(cell: Cell, names: Sequence[str], causes: Mapping[tuple[str, str, str], list[str]]) -> dict[str, Any]:
    record = cell.record or ItemRecord(cell.case, cell.column.target, "", "", "")
    run = "/".join(part for part in (names[cell.run], record.run) if part)
    return {
        "case": cell.case,
        "target": cell.column.target,
        "torch": cell.column.torch,
        "version": record.torch,
        "state": cell.state,
        "evidence": cell.evidence,
        "run": run,
        "node": cell.node,
        "checks": {name: result.to_json() for name, result in record.checks.items()},
        "facts": record.fact_values,
        "causes": causes.get((cell.case, cell.column.target, cell.column.torch), []),
    } | {name: getattr(record, name) for name in _FIELDS}


def _causes(changes: Changes) -> dict[tuple[str, str, str], list[str]]:
    """(case, target, torch) → the ids of the causes that changed its text."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for cause in changes.data:
        for case, target in cause["members"]:
            for torch in cause["torch"]:
                found.setdefault((case, target, torch), []).append(cause["id"])
    return found
