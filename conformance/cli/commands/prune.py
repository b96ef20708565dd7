"""`prune`: removes what is stored of cases that no longer exist. `drop`: removes what is of a torch version."""

from __future__ import annotations

import argparse
from pathlib import Path

from conformance.cases.lookup import OPS, cases_below
from conformance.cli.commands.diff import refuse_unknown
from conformance.devices import targets
from conformance.storage import binaries
from conformance.storage.locations import stores_beside
from conformance.storage.unused import unused, unused_binaries


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
    """Raises CaseError where a file cannot be imported, since its cases are not known then.

    And SnapshotError and BinaryFileError, for a file that cannot be read or removed.
    """
    folders = [Path(path) for path in arguments.paths] or [OPS]
    cases, whole = cases_below(folders), [folder for folder in folders if folder.is_dir()]
    found = unused(cases, whole)
    for store, case in found:
        print(store.path(case))
        if arguments.yes:
            store.remove([case])
    compiled = unused_binaries(cases, whole)
    for file, gone in compiled:
        print("\n".join(f"{file}: {case}" for case in gone))
        if arguments.yes:
            binaries.remove(file, gone, list(targets.targets()))
    said = "removed" if arguments.yes else "nothing was removed; --yes removes them"
    word = "of cases that no longer exist"
    print(f"{len(found)} snapshots {word}: {said}" if found else f"no snapshots {word}")
    if count := sum(len(gone) for _, gone in compiled):
        print(f"binaries of {count} cases that no longer exist: {said}")
    return 0


def run_drop(arguments: argparse.Namespace) -> int:
    """Raises SnapshotError, also where no code is stored for the version, and BinaryFileError."""
    stores = stores_beside([Path(path) for path in arguments.paths] or [OPS])
    refuse_unknown(stores, arguments.version)
    dropped = sum(store.drop(arguments.version) for store in stores)
    print(f"torch {arguments.version}: {dropped} texts removed; stored are {', '.join(_versions(stores)) or 'none'}")
    if files := sum(binaries.drop(store.root, arguments.version) for store in stores):
        print(f"torch {arguments.version}: {files} files of binaries removed")
    return 0


def _versions(stores: list) -> list[str]:
    return list(dict.fromkeys(version for store in stores for version in store.versions()))
