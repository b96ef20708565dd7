#!/usr/bin/env python3
"""Writes .github/workflows/conformance.yml from the device matrix; `--check` checks that the file is up to date."""

from __future__ import annotations

import argparse
import difflib
import json
import sys
from itertools import groupby
from pathlib import Path

import matrix

FILE = Path(__file__).parent.parent / ".github" / "workflows" / "conformance.yml"

HEAD = """\
# Written by `python ci/workflow.py` from ci/matrix.toml: change that file, not this one.
# Each job runs one row of the matrix; `python ci/job.py ROW` runs the same anywhere.
name: conformance

on:
  push:
    branches: [main]
  pull_request:
  schedule:
    - cron: "17 3 * * 1"
  workflow_dispatch:

permissions:
  contents: read

concurrency:
  group: ${{ github.workflow }}-${{ github.ref }}
  cancel-in-progress: ${{ github.event_name == 'pull_request' }}

jobs:
"""

JOB = """\
  {id}:
    name: ${{{{ matrix.row }}}}
{condition}\
    runs-on: {labels}
    timeout-minutes: ${{{{ matrix.minutes }}}}
    strategy:
      fail-fast: false
      matrix:
        include:
{include}
{environment}\
    steps:
      - uses: actions/checkout@v5
{python}\
      - run: {interpreter} ci/job.py ${{{{ matrix.row }}}}
      - uses: actions/upload-artifact@v5
        if: ${{{{ !cancelled() }}}}
        with:
          name: ${{{{ matrix.row }}}}
          path: .conformance/
          include-hidden-files: true
          if-no-files-found: ignore
"""

# Self-hosted machines never run code of a stranger: jobs of pull requests run on hosted machines only.
CONDITION = "    if: ${{{{ vars.{enabled} == '1' && github.event_name != 'pull_request' }}}}\n"

REPORT = """\

  report:
    name: one report of all jobs, and the documentation
    needs: [{needed}]
    if: ${{{{ !cancelled() }}}}
    runs-on: ubuntu-24.04
    timeout-minutes: 30
    env:
      CONFORMANCE_TORCH_INDEX: ${{{{ vars.TORCH_CPU_INDEX }}}}
    steps:
      - uses: actions/checkout@v5
      - uses: actions/setup-python@v6
        with:
          python-version: "3.12"
      - uses: actions/download-artifact@v5
        with:
          path: artifacts
      - run: ci/tox -e report -- artifacts -o matrix --title "conformance ${{{{ github.sha }}}}"
      - uses: actions/upload-artifact@v5
        with:
          name: report
          path: matrix
      - run: ci/tox -e docs -- -o site
      - run: cp -r matrix site/
      - uses: actions/upload-pages-artifact@v4
        if: ${{{{ github.ref == 'refs/heads/main' }}}}
        with:
          path: site

  pages:
    name: publish the documentation and the report
    needs: report
    if: >-
      ${{{{ !cancelled() && needs.report.result == 'success' && vars.CONFORMANCE_PAGES == '1'
      && github.ref == 'refs/heads/main' }}}}
    runs-on: ubuntu-24.04
    timeout-minutes: 10
    permissions:
      id-token: write
      pages: write
    environment:
      name: github-pages
    steps:
      - uses: actions/deploy-pages@v4
"""

PYTHON = """\
      - uses: actions/setup-python@v6
        with:
          python-version: ${{ matrix.python }}
"""


def render(rows: list[matrix.Row]) -> str:
    """Returns the text of the workflow: a job for each runner, an entry of its matrix for each row."""
    order = list(dict.fromkeys(row.runner.name for row in rows))
    rows = sorted(rows, key=lambda row: order.index(row.runner.name))
    jobs = [_job(list(group)) for _, group in groupby(rows, key=lambda row: row.runner.name)]
    return HEAD + "\n".join(jobs) + REPORT.format(needed=", ".join(order))


def _job(rows: list[matrix.Row]) -> str:
    runner = rows[0].runner
    entries = [
        {"row": row.name, **({"python": row.python} if row.python else {}), "minutes": row.minutes} for row in rows
    ]
    index = f"    env:\n      CONFORMANCE_TORCH_INDEX: ${{{{ vars.{runner.index} }}}}\n"
    return JOB.format(
        id=runner.name,
        condition="" if runner.hosted else CONDITION.format(enabled=runner.enabled),
        labels=json.dumps(runner.labels) if isinstance(runner.labels, list) else runner.labels,
        include="\n".join(f"          - {_inline(entry)}" for entry in entries),
        environment=index if runner.index else "",
        python=PYTHON if runner.hosted else "",
        interpreter="python" if runner.hosted else "python3",
    )


def _inline(entry: dict[str, str | int]) -> str:
    return "{" + ", ".join(f"{key}: {json.dumps(value)}" for key, value in entry.items()) + "}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit with 1 and a diff if the file is stale"
    )
    wanted = render(matrix.load())
    if not parser.parse_args().check:
        FILE.parent.mkdir(parents=True, exist_ok=True)
        FILE.write_text(wanted, encoding="utf-8")
        return 0
    found = FILE.read_text(encoding="utf-8") if FILE.exists() else ""
    if found == wanted:
        return 0
    lines = difflib.unified_diff(found.splitlines(), wanted.splitlines(), FILE.name, "from ci/matrix.toml", lineterm="")
    print("\n".join(lines))
    print(f"{FILE.name} does not match ci/matrix.toml. Write it again: python ci/workflow.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
