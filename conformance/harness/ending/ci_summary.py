"""Shows the end of a run on the page of a CI job."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

#: GitHub shows the Markdown that a step appends to this file on the page of the job.
VARIABLE = "GITHUB_STEP_SUMMARY"


def append(lines: Iterable[str]) -> None:
    """Appends the lines to the job's summary. Does nothing outside of GitHub's CI."""
    if file := os.environ.get(VARIABLE):
        text = "\n".join(["### conformance", "", "```text", *lines, "```", ""])
        with Path(file).open("a", encoding="utf-8") as summary:
            summary.write(text)
