#!/usr/bin/env python3
"""Joins the runs of all jobs of the device matrix into one report: `python ci/report.py ARTIFACTS -o site`.

ARTIFACTS is a folder with a folder for each job: what the job left below .conformance/. Writes site/index.html, and a
summary for the page of the job. Needs neither torch nor pytest: `ci/tox -e report -- ARTIFACTS -o site`.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from conformance.cli.main import main as conformance  # noqa: E402 # from this checkout, which needs no installation


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("artifacts", type=Path, help="a folder with the artifacts of each job")
    parser.add_argument("-o", "--output", type=Path, default=Path("site"), help="the folder of the site; default: site")
    parser.add_argument("--title", default="conformance", help="the title of the report")
    options = parser.parse_args()
    runs = last_runs(options.artifacts)
    if not runs:
        parser.error(f"{options.artifacts} holds no run: each job uploads its folder .conformance")
    options.output.mkdir(parents=True, exist_ok=True)
    words = ["report", *map(str, runs), "-o", str(options.output / "index.html"), "--title", options.title]
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    return conformance([*words, *(["--markdown", summary] if summary else [])])


def last_runs(artifacts: Path) -> list[Path]:
    """The last run of each job, in the order of the jobs' names."""
    found: dict[str, Path] = {}
    for file in sorted(artifacts.glob("*/runs/*/run.json"), key=lambda path: (path.stat().st_mtime, path)):
        if file.parent.name != "last":  # a link to one of the others
            found[file.relative_to(artifacts).parts[0]] = file.parent
    return [found[job] for job in sorted(found)]


if __name__ == "__main__":
    sys.exit(main())
