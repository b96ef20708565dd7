"""A summary of a report in Markdown, for the page of a CI job: failures and causes of changes come first."""

from __future__ import annotations

import re
from collections import Counter

from conformance.report.changes import Changes
from conformance.report.columns import STATES, Cell, Cells
from conformance.report.environment import template
from conformance.storage.check_results import Outcome

#: GitHub shows no summary of a step that is longer, in bytes. A part of it is left for other steps' texts.
LIMIT = 1024 * 1024 - 64 * 1024
_FAILURES, _CHANGES = 100, 20
_LONGEST = 300  # characters of a reason


def markdown_summary(cells: Cells, changes: Changes, title: str) -> str:
    """Returns the summary, at most LIMIT bytes long: fewer failures and changes are shown if it would be longer."""
    failures, shown = _FAILURES, _CHANGES
    while True:
        text = _render(cells, changes, title, failures, shown)
        if len(text.encode()) <= LIMIT or not failures + shown:
            return text
        failures, shown = failures // 2, shown // 2


def _render(cells: Cells, changes: Changes, title: str, failures: int, shown: int) -> str:
    counts = Counter(cell.state for cell in cells.cells.values())
    by_column = Counter((cell.column, cell.state) for cell in cells.cells.values())
    failed = sorted((cell for cell in cells.cells.values() if cell.state == "failed"), key=lambda each: each.case)
    return template("summary.md", text=_text).render(
        title=_text(title),
        total=f"{sum(counts.values()):,}",
        counts=[(state, f"{counts[state]:,}") for state in STATES if counts[state]],
        states=STATES,
        failures=[_failure(cell) for cell in failed[:failures]],
        more_failures=max(0, len(failed) - failures),
        changes=changes.data[:shown],
        more_changes=max(0, len(changes.data) - shown),
        columns=[(column, [by_column[column, state] for state in STATES]) for column in cells.columns],
    )


def _failure(cell: Cell) -> dict[str, str]:
    checks = cell.record.checks if cell.record else {}
    failed = {name: each for name, each in checks.items() if each.outcome in (Outcome.FAILED, Outcome.STALE)}
    why = "; ".join(f"{name}: {each.detail}" for name, each in failed.items())
    return {"case": cell.case, "target": cell.column.target, "torch": cell.column.torch, "why": why[:_LONGEST]}


def _text(text: str) -> str:
    """Text whose characters mean nothing in Markdown or HTML."""
    return re.sub(r"([\\`*_{}\[\]<>()#+!|~&-])", r"\\\1", " ".join(text.encode(errors="replace").decode().split()))
