"""Builds the report's page: the data of all cells, in pieces that the browser unpacks when someone looks at them."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from conformance.report.about import about
from conformance.report.changes import Changes
from conformance.report.columns import Cell, Cells, Column
from conformance.report.commands import review_commands
from conformance.report.comparison import Comparison
from conformance.report.details import details
from conformance.report.environment import asset, template
from conformance.report.explanations import kept_explanations
from conformance.report.further_pages import Section
from conformance.report.needs import needs_of
from conformance.report.search_words import search_words
from conformance.report.states import STATES, failed_checks
from conformance.settings import ALL_CHECKS
from conformance.storage.precedence import EVIDENCE
from conformance.storage.runs import Run

#: The version of the data in the page.
FORMAT = 2
CHECKS = tuple(each.name for each in ALL_CHECKS)
#: The parts of the page's script, in the order in which the page has them.
_SCRIPTS = (
    "elements.js",
    "matrix.js",
    "needs.js",
    "case.js",
    "explain.js",
    "error_pictures.js",
    "differences.js",
    "comparison.js",
    "history.js",
    "bugs.js",
    "bits.js",
    "pages.js",
    "times.js",
    "routes.js",
)
#: gzip's level: 9 takes three times as long for 3 % less.
_LEVEL = 6


def page(
    runs: Sequence[Run],
    cells: Cells,
    changes: Changes,
    sections: Sequence[Section] = (),
    title: str = "conformance",
    comparison: Comparison | None = None,
    links: Mapping[str, str] | None = None,
) -> str:
    """Returns the HTML of the report. It needs no network: style, script and data are in it.

    `comparison`: whose cells and changes they are, if the report compares two sides. `links`: text → address of further
    links in the head.
    """
    columns, cases = cells.columns, cells.cases
    descriptions = [run.description() for run in runs]
    data = {
        "format": FORMAT,
        "title": title,
        "made": f"{datetime.now(timezone.utc):%Y-%m-%d %H:%M} UTC",
        "states": STATES,
        "evidence": EVIDENCE,
        "about": [about(run) for run in runs],
        "reviews": [] if comparison else review_commands(runs),
        "comparison": comparison.to_json() if comparison else None,
        "runs": [each | {"name": run.folder.resolve().name} for run, each in zip(runs, descriptions, strict=True)],
        "replaced": cells.replaced,
        "columns": [[column.torch, column.target, column.side] for column in columns],
        "cases": cases,
        "checks": CHECKS,
        "cells": _table(cells, columns, cases),
        "needs": [] if comparison else [each.to_json() for each in needs_of(cells, changes)],
        "changes": changes.data,
        "sections": [{"address": each.address, "title": each.title} for each in sections],
    }
    packed = {"index": _packed(data), "search": _packed(search_words(cells))} | {
        f"operator-{name}": _packed(chunk) for name, chunk in details(cells, changes, descriptions).items()
    }
    packed |= {f"section-{each.address}": _packed(each.data) for each in sections}
    packed |= {name: _packed(explanation) for name, explanation in kept_explanations(cells).items()}
    script = f'"use strict";\n(() => {{\n{"".join(map(asset, _SCRIPTS))}}})();'
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()  # no other script may run
    return template("report.html").render(
        title=title, style=asset("report.css"), script=script, script_digest=digest, packed=packed, links=links or {}
    )


def _packed(data: Any) -> str:
    """JSON, compressed, as text that may stand in HTML."""
    try:
        text = json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    except ValueError:
        text = json.dumps(_finite(data), separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return base64.b64encode(gzip.compress(text.encode(errors="backslashreplace"), _LEVEL, mtime=0)).decode()


def _finite(data: Any) -> Any:
    """The same data with the texts "nan", "inf" and "-inf" instead of these numbers, which JSON does not have."""
    if isinstance(data, Mapping):
        return {name: _finite(each) for name, each in data.items()}
    if isinstance(data, (list, tuple)):
        return [_finite(each) for each in data]
    return str(data) if isinstance(data, float) and not math.isfinite(data) else data


def _table(cells: Cells, columns: Sequence[Column], cases: Sequence[str]) -> list[list[list[int] | int]]:
    """For each case, for each column: [state, evidence, run] as numbers, and the bits of the CHECKS that failed, if any
    did; 0 for a cell that no run has.
    """
    rows = []
    for case in cases:
        row: list[list[int] | int] = []
        for column in columns:
            cell = cells.cells.get((case, column))
            row.append(_numbers(cell) if cell else 0)
        rows.append(row)
    return rows


def _numbers(cell: Cell) -> list[int]:
    names = failed_checks(cell.record) if cell.record else ()
    failed = sum(1 << CHECKS.index(name) for name in names if name in CHECKS)
    return [STATES.index(cell.state), EVIDENCE.index(cell.evidence), cell.run, *([failed] if failed else [])]
