"""Explanations as the page has them: each line of a pane coloured, beside its links and reasons."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from conformance.report.columns import Cells
from conformance.report.further_pages import Section
from conformance.report.highlighting import highlighted

#: The address of the page of explanations.
EXPLAIN = "explain"


def explanations_page(case: str, explanations: Sequence[Mapping[str, Any]]) -> Section:
    """A page that explains a case for each target. `explanations`: as Explanation.to_json gives them."""
    return Section(EXPLAIN, case, {"explain": {"case": case, "targets": [coloured(each) for each in explanations]}})


def kept_explanations(cells: Cells) -> dict[str, Any]:
    """`explained-CASE-COLUMN`, both as numbers → the explanation that a run kept of the cell. Skips a damaged file."""
    cases = {case: number for number, case in enumerate(cells.cases)}
    columns = {column: number for number, column in enumerate(cells.columns)}
    found = {}
    for (case, column), cell in cells.cells.items():
        if cell.explanation:
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                data = json.loads(cell.explanation.read_text(encoding="utf-8"))
                found[f"explained-{cases[case]}-{columns[column]}"] = coloured(data)
    return found


def coloured(explanation: Mapping[str, Any]) -> dict[str, Any]:
    """The explanation with HTML as the lines of its panes."""
    panes = [pane | {"text": "\n".join(pane["lines"])} for pane in explanation["panes"]]
    html = highlighted([pane["text"] for pane in panes])
    return {
        **explanation,
        "panes": [
            {"name": pane["name"], "lines": html[pane["text"]].split("\n"), "notes": pane["notes"]} for pane in panes
        ],
    }
