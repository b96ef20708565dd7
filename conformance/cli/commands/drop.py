"""`drop`: removes what is stored for a torch version."""

from __future__ import annotations

import argparse
from pathlib import Path

from conformance.cases.lookup import OPS
from conformance.cli.commands.diff import refuse_unknown
from conformance.storage import binaries
from conformance.storage.locations import stores_beside


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("version", metavar="VERSION", help="a stored torch version, such as 2.11")
    parser.add_argument("paths", nargs="*", metavar="PATH", help="where the cases are; the package's own if left out")


def run(arguments: argparse.Namespace) -> int:
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
