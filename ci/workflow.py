#!/usr/bin/env python3
"""Writes the workflows conformance.yml and accepted.yml in .github/workflows/ from the device matrix.

`--check` checks that the files are up to date.
"""

from __future__ import annotations

import argparse
import difflib
import json
import sys
from itertools import groupby
from pathlib import Path

import matrix

FOLDER = Path(__file__).parent.parent / ".github" / "workflows"

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
      # run by: ci/job.py --short, with what CI has of each row
      - run: {interpreter} ci/job.py ${{{{ matrix.row }}}}
      - uses: actions/upload-artifact@v5
        if: ${{{{ !cancelled() }}}}
        with:
          name: ${{{{ matrix.row }}}}
          path: |
            .conformance/
            !.conformance/runs/last/**
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
      # with [ci/tox -e report --]: python ci/report.py
      # with [${{{{ github.sha }}}}]: of this commit
      # before: python -m pytest conformance/ops/test_flip.py -k 224-u8-contiguous --device cpu --save-run cpu
      # before: mkdir artifacts && cp -r .conformance artifacts/cpu
      - run: ci/tox -e report -- artifacts -o matrix --title "conformance ${{{{ github.sha }}}}"
      - uses: actions/upload-artifact@v5
        if: ${{{{ !cancelled() }}}}
        with:
          name: report
          path: matrix
          if-no-files-found: ignore
      # run by: the row site-2.13
      - run: ci/tox -e docs -- -o site --matrix matrix
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

ACCEPTED = """\
# Written by `python ci/workflow.py` from ci/matrix.toml: change that file, not this one.
# Runs the suite, and opens a pull request that stores what it generated; `python ci/accepted.py --help` says how.
name: accepted code

on:
  schedule:
    - cron: "41 1 * * *"
  workflow_dispatch:

permissions:
  contents: read

concurrency:
  group: ${{{{ github.workflow }}}}

jobs:
  suite:
    name: ${{{{ matrix.row }}}}
    # GitHub starts it each night where this variable is 1; a person starts it at any time.
    if: ${{{{ github.event_name == 'workflow_dispatch' || vars.CONFORMANCE_ACCEPTED == '1' }}}}
    runs-on: {labels}
    timeout-minutes: ${{{{ matrix.minutes }}}}
    strategy:
      fail-fast: false
      matrix:
        include:
{include}
    env:
      CONFORMANCE_TORCH_INDEX: ${{{{ vars.{index} }}}}
    steps:
      - uses: actions/checkout@v5
{python}\
      # run by: ci/job.py --short, with what CI has of each row
      - run: python ci/job.py ${{{{ matrix.row }}}}
        continue-on-error: true
      - uses: actions/upload-artifact@v5
        with:
          name: ${{{{ matrix.row }}}}
          path: |
            .conformance/
            !.conformance/runs/last/**
          include-hidden-files: true

  request:
    name: a pull request with what differs
    needs: suite
    if: ${{{{ !cancelled() && needs.suite.result != 'skipped' }}}}
    runs-on: {labels}
    timeout-minutes: 30
    permissions:
      contents: write
      pull-requests: write
    env:
      GH_TOKEN: ${{{{ secrets.CONFORMANCE_PULL_REQUEST_TOKEN || github.token }}}}
      GIT_AUTHOR_NAME: github-actions[bot]
      GIT_AUTHOR_EMAIL: 41898282+github-actions[bot]@users.noreply.github.com
      GIT_COMMITTER_NAME: github-actions[bot]
      GIT_COMMITTER_EMAIL: 41898282+github-actions[bot]@users.noreply.github.com
      LINK: ${{{{ github.server_url }}}}/${{{{ github.repository }}}}/actions/runs/${{{{ github.run_id }}}}
    steps:
      - uses: actions/checkout@v5
        with:
          fetch-depth: 0  # the branch's commits are compared with those of the base
          token: ${{{{ secrets.CONFORMANCE_PULL_REQUEST_TOKEN || github.token }}}}
      - uses: actions/setup-python@v6
        with:
          python-version: "3.12"
      - uses: actions/download-artifact@v5
        with:
          path: artifacts
      # run by: selftests/ci/test_accepted.py, for a repository on this machine
      - run: ci/tox -e accepted -- artifacts -o review --base "$GITHUB_REF_NAME" --link "$LINK"
      # run by: selftests/ci/test_accepted.py, which reads that file
      - run: cat review/review.md >> "$GITHUB_STEP_SUMMARY"
        if: ${{{{ !cancelled() && hashFiles('review/review.md') != '' }}}}
      - uses: actions/upload-artifact@v5
        if: ${{{{ !cancelled() }}}}
        with:
          name: review
          path: review
          if-no-files-found: ignore
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
    index = f"    env:\n      CONFORMANCE_TORCH_INDEX: ${{{{ vars.{runner.index} }}}}\n"
    return JOB.format(
        id=runner.name,
        condition="" if runner.hosted else CONDITION.format(enabled=runner.enabled),
        labels=json.dumps(runner.labels) if isinstance(runner.labels, list) else runner.labels,
        include=_include(rows),
        environment=index if runner.index else "",
        python=PYTHON if runner.hosted else "",
        interpreter="python" if runner.hosted else "python3",
    )


def _include(rows: list[matrix.Row]) -> str:
    entries = [
        {"row": row.name, **({"python": row.python} if row.python else {}), "minutes": row.minutes} for row in rows
    ]
    return "\n".join(f"          - {_inline(entry)}" for entry in entries)


def _inline(entry: dict[str, str | int]) -> str:
    return "{" + ", ".join(f"{key}: {json.dumps(value)}" for key, value in entry.items()) + "}"


def render_accepted(rows: list[matrix.Row]) -> str:
    """Returns the text of the workflow that stores code: for each row that runs the whole suite on a hosted machine."""
    rows = [row for row in rows if row.env == "suite" and row.runner.hosted and not row.args]
    runner = rows[0].runner
    return ACCEPTED.format(labels=runner.labels, include=_include(rows), index=runner.index, python=PYTHON)


def texts() -> dict[Path, str]:
    """Each file → its text."""
    rows = matrix.load()
    return {FOLDER / "conformance.yml": render(rows), FOLDER / "accepted.yml": render_accepted(rows)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 and a diff if a file is stale")
    if not parser.parse_args().check:
        FOLDER.mkdir(parents=True, exist_ok=True)
        for file, wanted in texts().items():
            file.write_text(wanted, encoding="utf-8")
        return 0
    return max([_check(file, wanted) for file, wanted in texts().items()])


def _check(file: Path, wanted: str) -> int:
    found = file.read_text(encoding="utf-8") if file.exists() else ""
    if found == wanted:
        return 0
    lines = difflib.unified_diff(found.splitlines(), wanted.splitlines(), file.name, "from ci/matrix.toml", lineterm="")
    print("\n".join(lines))
    print(f"{file.name} does not match ci/matrix.toml. Write it again: python ci/workflow.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
