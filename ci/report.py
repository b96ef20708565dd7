#!/usr/bin/env python3
"""Joins the runs of all jobs of the device matrix into one report: `python ci/report.py ARTIFACTS -o site`.

ARTIFACTS is a folder with a folder for each job: what the job left below .conformance/. Folders of runs may be named
too. Writes site/index.html, report.json and junit.xml, and a summary for the page of the job. Runs with another
--inductor-config get a page of their own, site/JOB.html. A run that cannot be read, and a job that left none, are named
first, and the exit status is 1.

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
from conformance.settings import config_text
from conformance.storage.runs import Run


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
        reports = _by_configuration(found.runs)
        for page, jobs in reports.items():
            runs = job_runs.placed_here(jobs, job_runs.ROOT, Path(folder, "runs"))
            words = ["report", *map(str, runs), "-o", str(options.output / f"{page}.html"), "--title", options.title]
            if page == "index":
                words += ["--json", str(options.output / "report.json"), "--junit", str(options.output / "junit.xml")]
            if status := conformance([*words, "--markdown", str(Path(folder, f"{page}.md"))]):
                return status
        if summary:
            texts = [Path(folder, f"{page}.md").read_text(encoding="utf-8") for page in reports]
            _append(Path(summary), _first_lines(found.problems) + "\n".join(texts))
    return int(bool(found.problems))


def _by_configuration(runs: dict[str, Path]) -> dict[str, dict[str, Path]]:
    """Page → its runs, by job. The page "index" has those without an --inductor-config, if there are any."""
    groups: dict[str, dict[str, Path]] = {}
    for job, run in runs.items():
        groups.setdefault(config_text(Run(run).description().get("inductor_config", {})), {})[job] = run
    front = min(groups, key=bool)
    return {"index": groups.pop(front), **{next(iter(jobs)): jobs for jobs in groups.values()}}


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
