"""`accept`: stores the code that a run generated, on this machine or on another one."""

from __future__ import annotations

import argparse
import dataclasses

from conformance.cli.run_options import add_paths_argument, add_run_argument, case_paths, find_run, snapshot_folders
from conformance.devices.targets import targets
from conformance.storage.accept import accept_snapshots

DESCRIPTION = """\
Store the code that a run generated, on this machine or on another one.
Items whose numerics fail are not stored.
Exit status 1: something was not stored; the output says why."""

EXAMPLES = """\
examples:
  python -m conformance accept last               the last run in this folder
  python -m conformance accept artifacts/h200     a run of a machine with a GPU
  python -m conformance accept artifacts/h200 --confirm-only"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run_argument(parser, required=True)
    add_paths_argument(parser)
    parser.add_argument(
        "--confirm-only",
        action="store_true",
        help="store no code; only mark stored code as confirmed if the run generated equal code on the real device",
    )


def run(arguments: argparse.Namespace) -> int:
    """Returns 1 if something was not stored. Raises RunError and CaseError."""
    folders = snapshot_folders(case_paths(arguments))
    items, unknown = [], []
    for item in find_run(arguments.run).items():
        if item.case in folders:
            items.append(dataclasses.replace(item, store=str(folders[item.case])))
        else:
            unknown.append(f"not accepted: {item.name}: this checkout has no such case")
    accepted = accept_snapshots(items, "confirm" if arguments.confirm_only else "all", list(targets()))
    print("\n".join([*accepted.lines(), *unknown]))
    return int(bool(accepted.refused or accepted.problems or unknown))
