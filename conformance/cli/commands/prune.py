"""`prune`: lists or removes what is stored for cases that no longer exist, or for a release of torch."""

from __future__ import annotations

import argparse

from conformance.cases.lookup import cases_below, project_here
from conformance.cli.run_options import add_paths_argument, case_paths
from conformance.cli.stored_changes import refuse_unknown
from conformance.devices import targets
from conformance.storage import binaries
from conformance.storage.installed import refuse_installed
from conformance.storage.locations import overlay_root, snapshot_stores
from conformance.storage.snapshots import Snapshot, Store
from conformance.storage.unused import unused_binaries, unused_snapshots

DESCRIPTION = """\
List what is stored for cases that no longer exist: snapshots, and facts of
binaries. With --torch: all that is stored for a release of torch. Nothing is
removed without --yes."""

EXAMPLES = """\
examples:
  python -m conformance prune                  list them
  python -m conformance prune --yes            remove them
  python -m conformance prune --torch 2.11 --yes
  python -m conformance prune --torch 2.11 tests/ops   list those of a folder"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_paths_argument(parser)
    parser.add_argument("--yes", action="store_true", help="remove what is listed")
    parser.add_argument("--torch", metavar="RELEASE", help="list all that is stored for this release, such as 2.11")


def run(arguments: argparse.Namespace) -> int:
    """Raises CaseError for a file that cannot be imported: its cases are unknown then. Raises SnapshotError and
    BinaryFileError for a file that cannot be read or removed, InstalledError for one of an installed package.
    """
    return _prune_release(arguments) if arguments.torch else _prune_cases(arguments)


def _prune_release(arguments: argparse.Namespace) -> int:
    """Raises SnapshotError if nothing is stored for the release."""
    if overlay := arguments.overlay.store:
        stores = [Store(overlay_root(overlay), list(targets.targets()))]
    else:
        stores = snapshot_stores(case_paths(arguments.paths))
    for store in stores:
        refuse_installed(store.root)
    refuse_unknown(stores, arguments.torch)
    if not arguments.yes:
        snapshots = [store.read_own(case) or Snapshot() for store in stores for case in store.own_cases()]
        count = sum(len(each.targets(arguments.torch)) for each in snapshots)
        print(f"torch {arguments.torch}: {count} texts are stored: nothing was removed; --yes removes them")
        return 0
    dropped = sum(store.drop(arguments.torch) for store in stores)
    versions = dict.fromkeys(version for store in stores for version in store.versions())
    print(f"torch {arguments.torch}: {dropped} texts removed; stored are {', '.join(versions) or 'none'}")
    if files := sum(binaries.remove_version(store.root, arguments.torch) for store in stores):
        print(f"torch {arguments.torch}: {files} files of binaries removed")
    return 0


def _prune_cases(arguments: argparse.Namespace) -> int:
    paths = case_paths(arguments.paths)
    cases = cases_below(paths)
    project = project_here()
    folders = [path for path in arguments.paths or project.tests or (project.root,) if path.is_dir()]
    overlay = arguments.overlay.store
    snapshots = unused_snapshots(cases, folders, overlay)
    compiled = unused_binaries(cases, folders, overlay)
    if overlay:  # only it is written to
        snapshots = [(store, case) for store, case in snapshots if store.root == overlay_root(overlay)]
        compiled = [(file, gone) for file, gone in compiled if file.is_relative_to(overlay)]
    for file in [*(store.root for store, _ in snapshots), *(file for file, _ in compiled)] if arguments.yes else ():
        refuse_installed(file)
    for store, case in snapshots:
        print(store.path(case))
        if arguments.yes:
            store.remove([case])
    for file, gone in compiled:
        print("\n".join(f"{file}: {case}" for case in gone))
        if arguments.yes:
            binaries.remove_cases(file, gone, list(targets.targets()))
    result = "removed" if arguments.yes else "nothing was removed; --yes removes them"
    of_cases = "of cases that no longer exist"
    print(f"{len(snapshots)} snapshots {of_cases}: {result}" if snapshots else f"no snapshots {of_cases}")
    if count := sum(len(gone) for _, gone in compiled):
        print(f"binaries of {count} cases that no longer exist: {result}")
    return 0
