"""The page of known bugs in the site: that of a report, with a table, filters and an address for each bug."""

from __future__ import annotations

from pathlib import Path

from conformance.cases.roots import STORAGE_ROOTS
from conformance.expectations import known_bugs, known_failures
from conformance.report.changes import Changes
from conformance.report.columns import Cells
from conformance.report.further_pages import bugs_page
from conformance.report.page import page
from conformance.storage.locations import KNOWN_FAILURES

#: Where the page is in the site.
ADDRESS = Path("known-bugs", "index.html")


def known() -> list[known_bugs.Bug]:
    """The bugs of this package, the most severe ones first."""
    folders = [root / KNOWN_FAILURES for root in STORAGE_ROOTS]
    return known_bugs.bugs(each for folder in folders for each in known_failures.load(folder).failures)


def write_page(source: Path) -> None:
    """Writes the page, and in the place of docs/known-bugs.md, which is for readers of the repository, a link to it."""
    found = known()
    file = source / "_extra" / ADDRESS
    file.parent.mkdir(parents=True, exist_ok=True)
    text = page([], Cells(), Changes(), [bugs_page(found)], known_bugs.TITLE)
    file.write_text(text, encoding="utf-8")
    worst = sum(bug.severity == min(each.severity for each in found) for bug in found)
    lines = [
        f"# {known_bugs.TITLE}",
        "",
        f'<a href="{ADDRESS.as_posix()}">The table of {len(found)} bugs</a> has filters by operator, device, torch,',
        "severity and state upstream, and for each bug a script that needs only torch, which result is right, and the",
        f"cases that found it. {worst} of them give wrong values in ordinary use.",
    ]
    (source / "known-bugs.md").write_text("\n".join([*lines, ""]), encoding="utf-8")
