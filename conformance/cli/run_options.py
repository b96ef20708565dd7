"""Arguments that several commands share: a run, and the folders of cases."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from conformance.cases.lookup import OPS, cases_below
from conformance.devices.machine import Machine
from conformance.harness.session import Session
from conformance.settings import Settings
from conformance.storage.runs import LAST, Run, open_run

_RUN = "the folder of a run, or its name below .conformance/runs"


def add_run_argument(parser: argparse.ArgumentParser, *, required: bool = False) -> None:
    if required:
        parser.add_argument("run", metavar="RUN", help=_RUN)
    else:
        parser.add_argument("run", nargs="?", default=LAST, metavar="RUN", help=f"{_RUN}; default: the last run")


def add_paths_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "paths",
        nargs="*",
        default=[],
        type=Path,
        metavar="PATH",
        help="files or folders of cases; default: the cases of this package",
    )


def find_run(word: str) -> Run:
    """Returns the run in a folder, or with a name. Raises RunError."""
    return open_run(Path.cwd(), word + os.sep if Path(word).is_dir() else word)


def case_paths(arguments: argparse.Namespace) -> list[Path]:
    return arguments.paths or [OPS]


def snapshot_folders(paths: list[Path]) -> dict[str, Path]:
    """Returns for each case id the folder of its snapshots in this checkout. Raises CaseError."""
    session = Session(Settings(), Machine(), Run(Path(os.devnull)))
    return {case.id: session.store(case).root for case in cases_below(paths)}
