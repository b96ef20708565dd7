"""`drop`: removes everything that is stored for a torch version."""

from __future__ import annotations

import argparse

from conformance.cli.commands.diff import refuse_unknown
from conformance.cli.run_options import add_paths_argument, case_paths
from conformance.devices.targets import targets
from conformance.storage import binaries
from conformance.storage.installed import refuse_installed
from conformance.storage.locations import overlay_root, snapshot_stores
from conformance.storage.snapshots import Store

DESCRIPTION = """\
Remove everything that is stored for a torch version: the code of all cases,
and the facts of their binaries."""

EXAMPLES = """\
examples:
  python -m conformance drop 2.11
  python -m conformance drop 2.11 tests/ops        for the cases of a folder"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("version", metavar="VERSION", help="a stored torch version, such as 2.11")
    add_paths_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    """Raises BinaryFileError, CaseError if the project has no cases, and SnapshotError: also if nothing is stored.

    Raises InstalledError where an installed package would be written to.
    """
    if overlay := arguments.overlay.store:
        stores = [Store(overlay_root(overlay), list(targets()))]
    else:
        stores = snapshot_stores(case_paths(arguments.paths))
    for store in stores:
        refuse_installed(store.root)
    refuse_unknown(stores, arguments.version)
    dropped = sum(store.drop(arguments.version) for store in stores)
    print(f"torch {arguments.version}: {dropped} texts removed; stored are {', '.join(_versions(stores)) or 'none'}")
    if files := sum(binaries.remove_version(store.root, arguments.version) for store in stores):
        print(f"torch {arguments.version}: {files} files of binaries removed")
    return 0


def _versions(stores: list[Store]) -> list[str]:
    return list(dict.fromkeys(version for store in stores for version in store.versions()))
