"""Finds the folders that store snapshots, binaries and known failures for a test file."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path

from conformance.devices import targets
from conformance.storage.snapshots import Store

EXPECTED_CODE, KNOWN_FAILURES = "expected_code", "known_failures"


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


def snapshot_store(test_file: Path, order: tuple[str, ...] | None = None) -> Store:
    """Returns the store of a test file's snapshots. `order`: of the targets in its files; default: of targets.toml."""
    return _store(storage_folder(test_file, EXPECTED_CODE), tuple(targets.targets()) if order is None else order)


def snapshot_stores(paths: Sequence[Path]) -> list[Store]:
    """Returns the stores of test files, and of all test files in folders."""
    files = [file for path in paths for file in (sorted(path.rglob("test_*.py")) if path.is_dir() else [path])]
    stores = {store.root.resolve(): store for store in map(snapshot_store, files)}
    return list(stores.values())


@functools.cache
def _store(root: Path, order: tuple[str, ...]) -> Store:
    return Store(root, order)
