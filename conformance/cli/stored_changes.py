"""`compare OLD NEW` of two releases: what changed from one to the other in the stored snapshots."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from conformance.cli.run_options import case_paths
from conformance.devices.targets import Target
from conformance.review.version_diff import compare_versions, version_diff_page
from conformance.storage.locations import snapshot_stores
from conformance.storage.snapshots import SnapshotError, Store, torch_release
from conformance.terminal import diff_line, heading


def is_release(word: str) -> bool:
    """Whether a word is a release of torch, such as 2.13 or 2.13.0, and no case."""
    return bool(re.fullmatch(r"\d+\.\d+(\.\d+)?", word))


def compare_releases(
    old: str, new: str, paths: Sequence[Path], wanted: Sequence[Target], store: str, *, markdown: bool
) -> bool:
    """Prints what changed in the code of `wanted` that is stored for two releases. Returns whether anything did.

    `paths`: files or folders of cases; without, those of this project, or else of this package. `store`: a folder that
    is laid over what is stored; "" for none. Raises SnapshotError.
    """
    stores = snapshot_stores(case_paths(paths, or_package=True), store)
    for version in (old, new):
        refuse_unknown(stores, version)
    found = compare_versions(stores, old, new, wanted)
    for line in version_diff_page(found, markdown=markdown):
        print(line if markdown else heading(line) if line.startswith("#") else _coloured(line))
    return bool(found.differ)


def refuse_unknown(stores: Sequence[Store], version: str) -> None:
    """Raises SnapshotError if nothing is stored for a torch version."""
    versions = {stored for store in stores for stored in store.versions()}
    known = sorted(versions, key=lambda text: [int(number) for number in text.split(".")])
    if torch_release(version) not in known:
        raise SnapshotError(f"nothing is stored for torch {version}; stored are {', '.join(known) or 'none'}")


def _coloured(line: str) -> str:
    return f"    {diff_line(line[4:])}" if line.startswith("    ") else line
