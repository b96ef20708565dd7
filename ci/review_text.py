"""The text of a pull request that stores what runs generated, as Markdown: what matters most comes first.

GitHub takes at most 65,536 characters. A text that would be longer shows fewer failures, causes and lines of examples,
and says how many there are.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
import job_runs  # noqa: F401 # puts this checkout on the path

from conformance.report.columns import Cell, cells_of
from conformance.review.causes import Cause
from conformance.review.review import review_items, stored_text_finder
from conformance.storage.check_results import Outcome
from conformance.storage.runs import ItemRecord, Run
from conformance.storage.snapshots import torch_release
from conformance.words import pluralise

#: Characters: less than GitHub takes.
LIMIT = 65_000
#: How many failures, causes and lines of an example the text has, and how many where that is too long.
_SIZES = ((100, 40, 30), (50, 20, 20), (50, 20, 8), (20, 10, 0), (5, 5, 0), (0, 0, 0))
_LONGEST = 300  # characters of a reason
#: The check that accepting mends: the generated code is compared with the stored one.
_MENDED = "code"


@dataclass(frozen=True)
class ReviewText:
    """What the text says of the runs, before anything is stored.

    `problems`: jobs whose run is not among them. `failures`: item, torch and why, of each item that fails, or was not
    run, and that stays so. `changes`: the causes, as `python -m conformance review` finds them for each torch release.
    `new`: operator → texts that are not stored yet.
    """

    runs: list[dict[str, Any]]
    problems: list[str]
    failures: list[dict[str, str]]
    changes: list[Cause]
    new: dict[str, int]
    link: str


def read(folders: Sequence[Path], problems: Sequence[str], link: str) -> ReviewText:
    """Compares the runs with what is stored now. Raises RunError for a run that cannot be read."""
    runs = [Run(folder) for folder in folders]
    cells = cells_of(runs)
    records = [cell.record for cell in cells.cells.values() if cell.record is not None and cell.record.store]
    changes, new = _compared(records)
    ordered = sorted(cells.cells.values(), key=lambda cell: (cell.state != "failed", cell.case, cell.column.target))
    return ReviewText(
        [run.description() | {"name": run.folder.resolve().name} for run in runs],
        list(problems),
        [_failure(cell, why) for cell in ordered if (why := _stays(cell))],
        changes,
        dict(Counter(record.case.partition("/")[0] for record in new)),
        link,
    )


def render(text: ReviewText, files: int) -> str:
    """Returns the Markdown, at most LIMIT characters. `files`: how many the request changes."""
    for failures, causes, lines in _SIZES:
        rendered = _render(text, files, failures, causes, lines)
        if len(rendered) <= LIMIT:
            break
    return rendered


def _render(text: ReviewText, files: int, failures: int, causes: int, lines: int) -> str:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        undefined=jinja2.StrictUndefined,
        autoescape=False,  # noqa: S701 # Markdown: the filter `text` escapes
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"text": _text, "plural": pluralise}
    template = environment.get_template("review.md.jinja")
    return template.render(text=text, files=files, failures=failures, causes=causes, lines=lines)


def _stays(cell: Cell) -> str:
    """Why the cell is not all right after its code was stored; "" if it is."""
    if cell.record is None or cell.state == "not run":
        return "was selected and did not run, or did not end"
    wrong = {name: each for name, each in cell.record.checks.items() if each.outcome in (Outcome.FAILED, Outcome.STALE)}
    if set(wrong) <= {_MENDED} and cell.record.text:
        return ""
    return "; ".join(f"{name}: {each.detail or each.outcome.value}" for name, each in wrong.items())


def _failure(cell: Cell, why: str) -> dict[str, str]:
    return {"item": f"{cell.case}-{cell.column.target}", "torch": cell.column.torch, "why": why[:_LONGEST]}


def _compared(records: Sequence[ItemRecord]) -> tuple[list[Cause], list[ItemRecord]]:
    """The causes of the texts that differ from the stored ones, and the records whose text is not stored."""
    causes: list[Cause] = []
    new: list[ItemRecord] = []
    for release in sorted({torch_release(record.torch) for record in records}):
        review = review_items([each for each in records if torch_release(each.torch) == release], stored_text_finder())
        causes += review.causes
        new += review.new
        new += [each.item for each in review.changed_items.values() if each.compared_with]  # with another torch's text
    return sorted(causes, key=lambda cause: -len(cause.members)), new


def _text(text: str) -> str:
    """Text whose characters mean nothing in Markdown or HTML, in one line."""
    return re.sub(r"([\\`*_{}\[\]<>()#+!|~&@-])", r"\\\1", " ".join(text.split()))
