"""`accept`: what a run generated, on this machine or another, becomes what is stored here."""

from __future__ import annotations

import argparse
import dataclasses
import os
from pathlib import Path

from conformance.cases.lookup import OPS, cases_below
from conformance.devices.machine import Machine
from conformance.devices.targets import targets
from conformance.harness.session import Session
from conformance.settings import Settings
from conformance.storage.accept import accept
from conformance.storage.runs import Run, existing


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="RUN", help="a run's folder, or its name below .conformance/runs")
    parser.add_argument("paths", nargs="*", metavar="PATH", help="where the cases are; the package's own if left out")
    parser.add_argument(
        "--confirm-only",
        action="store_true",
        help="only mark, as given by the real device, what is stored and equal",
    )


def run(arguments: argparse.Namespace) -> int:
    """1 where something was not taken. Raises RunError and CaseError."""
    named = arguments.folder + os.sep if Path(arguments.folder).is_dir() else arguments.folder
    brought = existing(Path.cwd(), named)
    folders = stores([Path(path) for path in arguments.paths] or [OPS])
    items, unknown = [], []
    for item in brought.items():
        if item.case in folders:
            items.append(dataclasses.replace(item, store=str(folders[item.case])))
        else:
            unknown.append(f"not accepted: {item.name}: there is no such case here")
    accepted = accept(items, "confirm" if arguments.confirm_only else "all", list(targets()))
    print("\n".join([*accepted.lines(), *unknown]))
    return int(bool(accepted.refused or accepted.problems or unknown))


def stores(paths: list[Path]) -> dict[str, Path]:
    """Case id → the folder of its snapshots in this checkout, wherever the run was made."""
    session = Session(Settings(), Machine(), Run(Path(os.devnull)))
    return {case.id: session.store(case).root for case in cases_below(paths)}
