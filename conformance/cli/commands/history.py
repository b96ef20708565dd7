"""`history`: keeps what runs gave over time, for a page that shows since when something fails."""

from __future__ import annotations

import argparse
from pathlib import Path

from conformance.cli.run_options import find_run

DESCRIPTION = """\
Add what a run gave to a history: a folder with one file for each run, which can
be a part of a git repository. `report --history FOLDER` shows each operator and
target over time, the first bad run, and the command that bisects it."""

EXAMPLES = """\
examples:
  pytest -n auto --save-run nightly
  python -m conformance history add nightly results
  python -m conformance report nightly --history results"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=["add"], help="add a run; one that is there already is replaced")
    parser.add_argument("run", metavar="RUN", help="the folder of a run, or its name below .conformance/runs")
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="the folder of the history")


def run(arguments: argparse.Namespace) -> int:
    """Raises RunError."""
    from conformance.report.timeline import add

    print(add(find_run(arguments.run), arguments.folder))
    return 0
