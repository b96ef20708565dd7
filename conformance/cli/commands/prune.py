"""`prune`: lists or removes what is stored of cases that no longer exist."""

from __future__ import annotations

import argparse
from pathlib import Path

from conformance.cases.lookup import OPS, cases_below
from conformance.devices import targets
from conformance.storage import binaries
from conformance.storage.unused import unused, unused_binaries


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paths", nargs="*", metavar="PATH", help="folders of test files; the package's own if left out")
    parser.add_argument("--yes", action="store_true", help="remove them")


def run(arguments: argparse.Namespace) -> int:
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
