"""GitHub's CI: a failure is shown at the line of its case in the diff, and the end of a run on the page of its job."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

#: GitHub shows so many errors of a step.
MOST = 10
_LONGEST = 2000  # characters of a message


class Report(Protocol):
    """What pytest.TestReport has. `location`: the file relative to the root folder, the line from 0, the name."""

    location: tuple[str, int | None, str]

    @property
    def longreprtext(self) -> str: ...


def error_commands(failed: Sequence[Report], root: Path, environment: Mapping[str, str] = os.environ) -> Iterable[str]:
    """Yields a command for each line of a file that failed, at most MOST; none outside of GitHub's CI.

    Items of one function share its line: the annotation counts them, and has the message of the first one. `root`:
    pytest's root folder.
    """
    if environment.get("GITHUB_ACTIONS") != "true":
        return
    workspace = Path(environment.get("GITHUB_WORKSPACE") or root)
    by_line: dict[tuple[str, int], list[Report]] = {}
    for report in failed:
        file, line, _ = report.location
        by_line.setdefault((os.path.relpath(root / file, workspace), (line or 0) + 1), []).append(report)
    for (file, line), reports in list(by_line.items())[:MOST]:
        names = list(dict.fromkeys(report.location[2] for report in reports))
        title = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
        where = f"file={_property(file)},line={line},title={_property(title)}"
        yield f"::error {where}::{_data(reports[0].longreprtext[:_LONGEST])}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


#: GitHub shows the Markdown that a step appends to this file on the page of the job.
VARIABLE = "GITHUB_STEP_SUMMARY"


def append_summary(lines: Iterable[str]) -> None:
    """Appends the lines to the job's summary. Does nothing outside of GitHub's CI."""
    if file := os.environ.get(VARIABLE):
        text = "\n".join(["### conformance", "", "```text", *lines, "```", ""])
        with Path(file).open("a", encoding="utf-8") as summary:
            summary.write(text)
