"""What the pages of cases show: the details of each cell, and the parts of its texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conformance.normalize.text import canonical_text
from conformance.report.case_functions import function_text
from conformance.report.changes import Changes
from conformance.report.columns import Cell, Cells
from conformance.report.commands import item_commands
from conformance.report.highlighting import highlighted
from conformance.report.history import history
from conformance.storage.check_results import Outcome
from conformance.storage.runs import ItemRecord, message_file
from conformance.storage.snapshot_format import split_parts

#: Fields of a record that the page shows as they are, where they are not empty.
_FIELDS = (
    *("drift", "missed", "binaries", "reused", "shared_with", "shortfalls", "notices", "needs_fp64", "problems"),
    "error_profiles",
)
#: Of one artifact, and of all of a report, so many characters are shown: the rest stays in the run's folder.
_LONGEST_ARTIFACT, _ALL_ARTIFACTS = 40_000, 20_000_000
#: The artifacts that are shown, in their order: patterns of names.
_ARTIFACTS = ("joint_graph.py", "*_graph.py", "*_ir_pre_fusion.txt", "*_ir_post_fusion.txt")


@dataclass
class _ArtifactTexts:
    """Reads artifacts, until there are too many for one report."""

    left: int = _ALL_ARTIFACTS

    def of(self, cell: Cell) -> dict[str, str]:
        """Name → text."""
        folder = cell.artifacts
        paths = [path for pattern in _ARTIFACTS for path in sorted(folder.glob(pattern))] if folder else []
        return {path.name: self.cut(cell.artifact(path.name), path) for path in dict.fromkeys(paths)}

    def cut(self, text: str, path: Path) -> str:
        most = min(_LONGEST_ARTIFACT, self.left)
        shown = text if len(text) <= most else f"{text[:most]}\n… {len(text) - most:,} further characters: {path}"
        self.left -= min(len(text), most)
        return shown


@dataclass
class _Chunk:
    """Details of one operator. `parts`: HTML of a part of a text → its number, in order. `sources`: case → a number."""

    sources: dict[str, int] = field(default_factory=dict)
    parts: dict[str, int] = field(default_factory=dict)
    cells: dict[str, dict[int, Any]] = field(default_factory=dict)
    history: dict[str, list[Any]] = field(default_factory=dict)


def details(cells: Cells, changes: Changes, descriptions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Operator → `parts`, the coloured parts of its texts; `sources`, case → number of the part with its function;
    `cells`, case → number of the column → what the page shows; `history`, case → its steps between torch releases.

    `descriptions`: run.json of each run.
    """
    texts = [cell.record.text for cell in cells.cells.values() if cell.record and cell.record.text]
    split = {text: [part for _, part in split_parts(canonical_text(text))] for text in {*texts, *changes.old_texts}}
    functions = {cell.case: text for cell in cells.cells.values() if (text := function_text(cell))}
    html = highlighted([*(part for parts in split.values() for part in parts), *functions.values()])
    numbers = {column: number for number, column in enumerate(cells.columns)}
    artifacts = _ArtifactTexts()
    chunks: dict[str, _Chunk] = {}
    for cell in cells.cells.values():
        chunk = chunks.setdefault(_operator(cell.case), _Chunk())
        if cell.record is not None:
            detail = _detail(cell, cell.record, artifacts)
            if commands := item_commands(cell, descriptions[cell.run]):
                detail["commands"] = commands
            for name, text in (("text", cell.record.text), ("before", changes.old_text(cell))):
                found = split[text] if text else []
                if found or name == "text":
                    detail[name] = [chunk.parts.setdefault(html[part], len(chunk.parts)) for part in found]
            chunk.cells.setdefault(cell.case, {})[numbers[cell.column]] = detail
    for case, text in functions.items():
        chunk = chunks[_operator(case)]
        chunk.sources[case] = chunk.parts.setdefault(html[text], len(chunk.parts))
    for step in history(cells):
        chunks[_operator(step.case)].history.setdefault(step.case, []).append(step.to_json())
    return {
        name: {"parts": list(chunk.parts), "sources": chunk.sources, "cells": chunk.cells, "history": chunk.history}
        for name, chunk in chunks.items()
    }


def _operator(case: str) -> str:
    return case.partition("/")[0]


def _detail(cell: Cell, record: ItemRecord, artifacts: _ArtifactTexts) -> dict[str, Any]:
    detail: dict[str, Any] = {
        "checks": {name: [each.outcome.value, each.detail] for name, each in record.checks.items()},
        "mode": record.mode,
        "torch": record.torch,
    }
    further = {
        "script": cell.script,
        "messages": _messages(cell, record, artifacts),
        "artifacts": artifacts.of(cell),
        "facts": {} if record.text else record.facts,
        "seconds": round(record.seconds, 2),
    }
    further |= {name: getattr(record, name) for name in _FIELDS}
    return detail | {name: value for name, value in further.items() if value}


def _messages(cell: Cell, record: ItemRecord, artifacts: _ArtifactTexts) -> dict[str, str]:
    """Failed check → its whole message, if that has more lines than the record's detail."""
    found = {}
    for name, result in record.checks.items():
        if result.outcome is Outcome.FAILED and cell.artifacts:
            text = cell.artifact(message_file(name)).rstrip()
            if "\n" in text:
                found[name] = artifacts.cut(text, cell.artifacts / message_file(name))
    return found
