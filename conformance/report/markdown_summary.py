"""A summary of a report in Markdown, for the page of a CI job: at most 20 lines, with causes in place of items."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from conformance.report.about import about
from conformance.report.changes import Changes
from conformance.report.columns import Cells
from conformance.report.environment import template
from conformance.report.needs import needs_of
from conformance.report.states import STATES
from conformance.storage.runs import Run

#: So many causes are shown, and so many runs.
_CAUSES, _RUNS = 8, 3


def markdown_summary(runs: Sequence[Run], cells: Cells, changes: Changes, title: str) -> str:
    """Returns the summary: what each run was, then what needs someone, in the order of the page."""
    counts = Counter(cell.state for cell in cells.cells.values())
    needs, total = needs_of(cells, changes), sum(counts.values())
    return template("summary.md", text=_text).render(
        title=title,
        total=f"{total:,} item{'s' * (total != 1)}",
        counts=[(state, f"{counts[state]:,}") for state in STATES if counts[state]],
        runs=[about(run) for run in runs[:_RUNS]],
        more_runs=max(0, len(runs) - _RUNS),
        needs=needs[:_CAUSES],
        more_needs=max(0, len(needs) - _CAUSES),
    )


def _text(text: str) -> str:
    """Text whose characters mean nothing in Markdown or HTML."""
    return re.sub(r"([\\`*_{}\[\]<>()#+!|~&-])", r"\\\1", " ".join(text.encode(errors="replace").decode().split()))
