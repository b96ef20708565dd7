"""`prune`: removes snapshots whose case no longer exists. `drop`: removes those of a torch version."""

from __future__ import annotations

import argparse
from pathlib import Path

from conformance.commands.diffing import refuse_unknown
from conformance.finding import OPS, cases_below
from conformance.session import stores_beside
from conformance.unused import unused


def add(commands: argparse._SubParsersAction) -> None:
    prune = commands.add_parser("prune", help="snapshots whose case no longer exists: list them, or remove them")
    prune.add_argument("paths", nargs="*", metavar="PATH", help="folders of test files; the package's own if left out")
    prune.add_argument("--yes", action="store_true", help="remove them")
    prune.set_defaults(run=run_prune)
    drop = commands.add_parser("drop", help="remove what is stored for a torch version")
    drop.add_argument("version", metavar="VERSION", help="a stored torch version, such as 2.11")
    drop.add_argument("paths", nargs="*", metavar="PATH", help="where the cases are; the package's own if left out")
    drop.set_defaults(run=run_drop)


def run_prune(arguments: argparse.Namespace) -> int:
    """Raises CaseError where a file cannot be imported, since its cases are not known then; and SnapshotError."""
    folders = [Path(path) for path in arguments.paths] or [OPS]
    found = unused(cases_below(folders), [folder for folder in folders if folder.is_dir()])
    for store, case in found:
        print(store.path(case))
        if arguments.yes:
            store.remove([case])
    word = "snapshots of cases that no longer exist"
    said = "removed" if arguments.yes else "nothing was removed; --yes removes them"
    print(f"{len(found)} {word}: {said}" if found else f"no {word}")
    return 0


def run_drop(arguments: argparse.Namespace) -> int:
    """Raises SnapshotError, also where nothing is stored for the version."""
    stores = stores_beside([Path(path) for path in arguments.paths] or [OPS])
    refuse_unknown(stores, arguments.version)
    dropped = sum(store.drop(arguments.version) for store in stores)
    print(f"torch {arguments.version}: {dropped} texts removed; stored are {', '.join(_versions(stores)) or 'none'}")
    return 0


def _versions(stores: list) -> list[str]:
    return list(dict.fromkeys(version for store in stores for version in store.versions()))
