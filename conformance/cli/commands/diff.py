"""`diff`: what changed from one torch version to another in the stored snapshots."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from conformance.cli.run_options import add_paths_argument, case_paths
from conformance.devices.targets import select_targets, targets
from conformance.review.version_diff import compare_versions, version_diff_page
from conformance.storage.locations import snapshot_stores
from conformance.storage.snapshots import SnapshotError, Store, torch_release
from conformance.terminal import diff_line, heading

DESCRIPTION = """\
Show what changed between two torch versions in the stored snapshots: facts and
code, grouped by cause. Nothing is compiled."""

EXAMPLES = """\
examples:
  python -m conformance diff 2.13 2.15 --device cuda
  python -m conformance diff 2.13 2.15 --markdown > changes.md"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("old", metavar="OLD", help="a stored torch version, such as 2.13")
    parser.add_argument("new", metavar="NEW", help="another stored version, such as 2.15")
    add_paths_argument(parser, "those of this project, or else of this package")
    parser.add_argument("--device", metavar="LIST", help="only for these devices: cpu,cuda,rocm,xpu or all")
    parser.add_argument("--target", metavar="LIST", help="only for these targets: cpu_avx2,cuda_sm90")
    parser.add_argument("--markdown", action="store_true", help="print Markdown, for release notes or a review")


def run(arguments: argparse.Namespace) -> int:
    """Raises SnapshotError and TargetError."""
    wanted = select_targets(targets().values(), arguments.device, arguments.target)
    stores = snapshot_stores(case_paths(arguments.paths, or_package=True), arguments.overlay.store)
    for version in (arguments.old, arguments.new):
        refuse_unknown(stores, version)
    found = compare_versions(stores, arguments.old, arguments.new, wanted)
    for line in version_diff_page(found, markdown=arguments.markdown):
        print(line if arguments.markdown else heading(line) if line.startswith("#") else _coloured(line))
    return 0


def refuse_unknown(stores: Sequence[Store], version: str) -> None:
    """Raises SnapshotError if nothing is stored for a torch version."""
    versions = {stored for store in stores for stored in store.versions()}
    known = sorted(versions, key=lambda text: [int(number) for number in text.split(".")])
    if torch_release(version) not in known:
        raise SnapshotError(f"nothing is stored for torch {version}; stored are {', '.join(known) or 'none'}")


def _coloured(line: str) -> str:
    return f"    {diff_line(line[4:])}" if line.startswith("    ") else line
