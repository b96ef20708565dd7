"""`accept`: stores the code that a run generated, on this machine or on another one, or an archive of `confirm`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from conformance.cli.overlay_options import refuse_configured_run, refuse_source_run, store_of_run
from conformance.cli.received_archive import accept_archive
from conformance.cli.run_items import locate_items, without_code
from conformance.cli.run_options import add_paths_argument, add_run_argument, find_run
from conformance.devices.targets import targets
from conformance.storage.accept import accept_snapshots, note_source, refuse_installed_stores
from conformance.storage.runs import RunError

DESCRIPTION = """\
Store the code that a run generated, on this machine or on another one.
Items whose numerics fail are not stored.
An archive of `confirm` marks stored code as confirmed, and stores what is new.
What differs is listed and not stored.
Exit status 1: something was not stored, or an archive shows a difference; the
output says why."""

EXAMPLES = """\
examples:
  python -m conformance accept last               the last run of this project
  python -m conformance accept artifacts/h200     a run of a machine with a GPU
  python -m conformance accept artifacts/h200 --confirm-only
  python -m conformance accept conformance-xpu_bmg-torch2.13.zip"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run_argument(parser, required=True)
    add_paths_argument(parser, "where the run says")
    parser.add_argument(
        "--confirm-only",
        action="store_true",
        help="store no code; only mark stored code as confirmed if the run generated equal code on the real device",
    )
    parser.add_argument(
        "--add-row",
        metavar="NAME",
        help="with an archive of a device that has no row in targets.toml: add its row under this name",
    )


def run(arguments: argparse.Namespace) -> int:
    """Returns 1 if something was not stored. Raises RunError, ArchiveError, TargetError and CaseError; InstalledError
    where an installed package would be written to.
    """
    if Path(arguments.run).is_file():
        return accept_archive(
            Path(arguments.run),
            arguments.paths,
            arguments.overlay,
            confirm_only=arguments.confirm_only,
            new_row=arguments.add_row,
        )
    if arguments.add_row:
        raise RunError("--add-row is for an archive of `python -m conformance confirm`, and this is a run")
    accepted_run = find_run(arguments.run)
    refuse_configured_run(accepted_run)
    store = store_of_run(arguments, accepted_run)
    refuse_source_run(accepted_run, store)
    located, order = locate_items(accepted_run, arguments.paths), list(targets())
    refuse_installed_stores(located.items, store)
    print("\n".join(located.notes), end="\n" if located.notes else "", file=sys.stderr)
    accepted = accept_snapshots(located.items, "confirm" if arguments.confirm_only else "all", order, store)
    note_source(accepted_run, store)
    missing = [f"not accepted: {line}" for line in (*without_code(located.items, order), *located.missing)]
    print("\n".join([*accepted.lines(), *missing]))
    return int(bool(accepted.refused or accepted.problems or missing))
