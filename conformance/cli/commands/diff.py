"""`diff`: what changed from one torch version to another, from what is stored."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from conformance.cases.lookup import OPS
from conformance.devices.targets import select_targets, targets
from conformance.review.version_diff import compared, page
from conformance.storage.locations import stores_beside
from conformance.storage.snapshots import SnapshotError, Store, release
from conformance.terminal import diff_line, heading


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("old", metavar="OLD", help="a stored torch version, such as 2.13")
    parser.add_argument("new", metavar="NEW", help="another, such as 2.15")
    parser.add_argument("paths", nargs="*", metavar="PATH", help="where the cases are; the package's own if left out")
    parser.add_argument("--device", metavar="LIST", help="on these devices")
    parser.add_argument("--target", metavar="LIST", help="on these targets")
    parser.add_argument("--markdown", action="store_true", help="a page for release notes or a review")


def run(arguments: argparse.Namespace) -> int:
    """Raises SnapshotError, TargetError."""
    wanted = select_targets(targets().values(), arguments.device, arguments.target)
    stores = stores_beside([Path(path) for path in arguments.paths] or [OPS])
    for version in (arguments.old, arguments.new):
        refuse_unknown(stores, version)
    found = compared(stores, arguments.old, arguments.new, wanted)
    for line in page(found, markdown=arguments.markdown):
        print(line if arguments.markdown else heading(line) if line.startswith("#") else _painted(line))
    return 0


def refuse_unknown(stores: Sequence[Store], version: str) -> None:
    """Raises SnapshotError where nothing is stored for a torch version."""
    known = sorted(
        {each for store in stores for each in store.versions()}, key=lambda v: [int(n) for n in v.split(".")]
    )
    if release(version) not in known:
        raise SnapshotError(f"nothing is stored for torch {version}; stored are {', '.join(known) or 'none'}")


def _painted(line: str) -> str:
    return f"    {diff_line(line[4:])}" if line.startswith("    ") else line
