"""Builds the report's page: the data of all cells, in pieces that the browser unpacks when someone looks at them."""

from __future__ import annotations

import base64
import gzip
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from importlib import resources
from typing import Any

from conformance.report.changes import Changes
from conformance.report.columns import STATES, Cell, Cells, Column
from conformance.report.environment import template
from conformance.report.further_pages import Section
from conformance.report.highlighting import highlighted
from conformance.storage.precedence import EVIDENCE
from conformance.storage.runs import Run
from conformance.storage.snapshot_format import split_parts
from conformance.storage.snapshots import canonical_text

#: The version of the data in the page.
FORMAT = 1
#: The parts of the page's script, in the order in which the page has them.
_SCRIPTS = (
    "elements.js",
    "matrix.js",
    "case.js",
    "error_pictures.js",
    "differences.js",
    "pages.js",
    "times.js",
    "routes.js",
)
#: Fields of a record that the page shows as they are, where they are not empty.
_FIELDS = (
    *("drift", "missed", "binaries", "reused", "shared_with", "shortfalls", "notices", "needs_fp64", "problems"),
    "error_profiles",
)
#: gzip's level: 9 takes three times as long for 3 % less.
_LEVEL = 6


def page(
    runs: Sequence[Run], cells: Cells, changes: Changes, sections: Sequence[Section] = (), title: str = "conformance"
) -> str:
    """Returns the HTML of the report. It needs no network: style, script and data are in it."""
    columns, cases = cells.columns, cells.cases
    chunks = _chunks(cells, changes, columns)
    data = {
        "format": FORMAT,
        "title": title,
        "made": f"{datetime.now(timezone.utc):%Y-%m-%d %H:%M} UTC",
        "states": STATES,
        "evidence": EVIDENCE,
        "runs": [_described(run) for run in runs],
        "replaced": cells.replaced,
        "columns": [[column.torch, column.target] for column in columns],
        "cases": cases,
        "cells": _table(cells, columns, cases),
        "changes": changes.data,
        "sections": [{"address": each.address, "title": each.title} for each in sections],
    }
    packed = {"index": _packed(data)} | {f"operator-{name}": _packed(chunk) for name, chunk in chunks.items()}
    packed |= {f"section-{each.address}": _packed(each.data) for each in sections}
    return template("report.html").render(
        title=title,
        style=_asset("report.css"),
        script="".join(map(_asset, _SCRIPTS)),
        packed=packed,
    )


def _asset(name: str) -> str:
    return resources.files("conformance.report").joinpath("templates").joinpath(name).read_text(encoding="utf-8")


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


def _described(run: Run) -> dict[str, Any]:
    return run.description() | {"name": run.folder.resolve().name}


def _table(cells: Cells, columns: Sequence[Column], cases: Sequence[str]) -> list[list[list[int] | int]]:
    """For each case, for each column: [state, evidence, run] as numbers; 0 for a cell that no run has."""
    states = list(STATES)
    rows = []
    for case in cases:
        row: list[list[int] | int] = []
        for column in columns:
            cell = cells.cells.get((case, column))
            row.append([states.index(cell.state), EVIDENCE.index(cell.evidence), cell.run] if cell else 0)
        rows.append(row)
    return rows


def _chunks(cells: Cells, changes: Changes, columns: Sequence[Column]) -> dict[str, Any]:
    """Operator → the details of its cells and the parts of their texts."""
    texts = [cell.record.text for cell in cells.cells.values() if cell.record and cell.record.text]
    split = {text: [part for _, part in split_parts(canonical_text(text))] for text in {*texts, *changes.old_texts}}
    html = highlighted(part for parts in split.values() for part in parts)
    by_operator: dict[str, list[Cell]] = {}
    for cell in cells.cells.values():
        by_operator.setdefault(cell.case.partition("/")[0], []).append(cell)
    return {name: _chunk(group, changes, split, html, columns) for name, group in by_operator.items()}


def _chunk(
    cells: Iterable[Cell],
    changes: Changes,
    split: Mapping[str, list[str]],
    html: Mapping[str, str],
    columns: Sequence[Column],
) -> dict[str, Any]:
    parts: dict[str, int] = {}

    def numbers(text: str) -> list[int]:
        return [parts.setdefault(html[part], len(parts)) for part in split[text]] if text else []

    details: dict[str, dict[int, Any]] = {}
    for cell in cells:
        record = cell.record
        if record is None:
            continue
        detail: dict[str, Any] = {
            "checks": {name: [each.outcome.value, each.detail] for name, each in record.checks.items()},
            "text": numbers(record.text),
            "mode": record.mode,
            "torch": record.torch,
        }
        detail |= {name: value for name, value in (("node", cell.node), ("script", cell.script)) if value}
        if old := changes.old_text(cell):
            detail["before"] = numbers(old)
        for name in ("facts",) if not record.text else ():
            detail[name] = getattr(record, name)
        for name in _FIELDS:
            if value := getattr(record, name):
                detail[name] = value
        if record.seconds:
            detail["seconds"] = round(record.seconds, 2)
        details.setdefault(cell.case, {})[columns.index(cell.column)] = detail
    return {"parts": list(parts), "cells": details}
