"""Finds the folders that store snapshots, binaries and known failures for a test file."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path

from conformance.devices import targets
from conformance.storage.digest_store import DigestStore, OverlaidDigestStore
from conformance.storage.overlaid_store import OverlaidStore
from conformance.storage.snapshots import Store

EXPECTED_CODE, EXPECTED_DIGESTS, KNOWN_FAILURES = "expected_code", "expected_digests", "known_failures"


def storage_folder(test_file: Path, name: str) -> Path:
    """Returns the folder `name` for a test file.

    It lies beside the folder of the test file if it exists there, or if the tests are in a package; else in the folder
    of the test file. One that exists there already stays: another file's snapshots must not change the place.
    """
    own = test_file.parent / name
    if own.is_dir():
        return own
    outer = test_file.parent.parent / name
    in_package = all((folder / "__init__.py").exists() for folder in (test_file.parent, outer.parent))
    return outer if in_package or outer.is_dir() else own


def snapshot_store(test_file: Path, order: tuple[str, ...] | None = None, overlay: str = "") -> Store:
    """Returns the store of a test file's snapshots. `order`: of the targets in its files; default: of all targets.

    `overlay`: see store_at.
    """
    order = tuple(targets.targets()) if order is None else order
    return store_at(snapshot_folder(test_file), order, overlay)


def snapshot_folder(test_file: Path) -> Path:
    """Returns the folder of a test file's snapshots: `expected_digests` if it exists there, else `expected_code`."""
    code = storage_folder(test_file, EXPECTED_CODE)
    own = test_file.parent / EXPECTED_DIGESTS
    return own if own.is_dir() and code.parent != test_file.parent else code


def has_folders_of_its_own(folder: Path) -> bool:
    """Returns whether the test files in a folder store what they generate there, and not beside the folder."""
    return any((folder / name).is_dir() for name in (EXPECTED_CODE, EXPECTED_DIGESTS))


def snapshot_stores(paths: Sequence[Path], overlay: str = "") -> list[Store]:
    """Returns the stores of test files, and of all test files in folders. `overlay`: see store_at."""
    files = [file for path in paths for file in (sorted(path.rglob("test_*.py")) if path.is_dir() else [path])]
    found = [snapshot_store(file, overlay=overlay) for file in files]
    return list({store.place.resolve(): store for store in found}.values())


@functools.cache
def store_at(place: Path, order: tuple[str, ...], overlay: str = "") -> Store:
    """Returns the store in a folder expected_code/ or expected_digests/.

    `overlay`: the folder whose folder of that name is laid over it.
    """
    if place.name == EXPECTED_DIGESTS:
        of_digests = DigestStore(place, order)
        return (
            OverlaidDigestStore(overlay_root(overlay, EXPECTED_DIGESTS), of_digests, order) if overlay else of_digests
        )
    below = Store(place, order)
    return OverlaidStore(overlay_root(overlay), below, order) if overlay else below


def overlay_root(overlay: str, name: str = EXPECTED_CODE) -> Path:
    """Returns the folder of an overlay's snapshots."""
    return Path(overlay) / name
