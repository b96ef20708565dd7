#!/usr/bin/env python3
"""Joins the runs of all jobs of the device matrix into one report: `python ci/report.py ARTIFACTS -o site`.

ARTIFACTS is a folder with a folder for each job: what the job left below .conformance/. Folders of runs may be named
too. Writes site/index.html, report.json and junit.xml, and a summary for the page of the job. A run that cannot be
read, and a job that left none, are named first, and the exit status is 1.

Needs neither torch nor pytest: `ci/tox -e report -- ARTIFACTS -o site`.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

import job_runs

from conformance.cli.main import main as conformance


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("artifacts", type=Path, nargs="+", help="a folder with the artifacts of each job, or a run")
    parser.add_argument("-o", "--output", type=Path, default=Path("site"), help="the folder of the site; default: site")
    parser.add_argument("--title", default="conformance", help="the title of the report")
    options = parser.parse_args()
    found = job_runs.find(options.artifacts, all_rows=True)
    for line in found.problems:
        print(f"not in the report: {line}", file=sys.stderr)
    if not found.runs:
        names = ", ".join(map(str, options.artifacts))
        parser.error(f"{names} holds no run that can be read: each job uploads its folder .conformance")
    try:
        options.output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        parser.error(f"the folder {options.output} cannot be written to: {error.strerror}; name another one with -o")
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    with tempfile.TemporaryDirectory() as folder:
        runs = job_runs.placed_here(found.runs, job_runs.ROOT, Path(folder, "runs"))
        words = ["report", *map(str, runs), "-o", str(options.output / "index.html"), "--title", options.title]
        words += ["--json", str(options.output / "report.json"), "--junit", str(options.output / "junit.xml")]
        markdown = Path(folder, "summary.md")
        if status := conformance([*words, "--markdown", str(markdown)]):
            return status
        if summary:
            _append(Path(summary), _first_lines(found.problems) + markdown.read_text(encoding="utf-8"))
    return int(bool(found.problems))


def _first_lines(problems: list[str]) -> str:
    if not problems:
        return ""
    lines = [
        "> [!CAUTION]",
        "> The report is not complete:",
        ">",
        *(f"> - `{line.replace('`', '')}`" for line in problems),
    ]
    return "\n".join(lines) + "\n\n"


def _append(summary: Path, text: str) -> None:
    """Steps add to the file, as GitHub's documentation says."""
    with summary.open("a", encoding="utf-8") as file:
        file.write(text)


if __name__ == "__main__":
    sys.exit(main())
