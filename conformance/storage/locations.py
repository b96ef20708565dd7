"""Where what is stored for a test file's cases lies."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path

from conformance.devices import targets
from conformance.storage.snapshots import Store

#: Folders beside a test file's, or in it, that hold what is stored for its cases.
EXPECTED, KNOWN = "expected_code", "known_failures"


def folder_beside(file: Path, name: str) -> Path:
    """The folder of that name beside the test file's folder, if there is one or that is a package's; else in it."""
    outer = file.parent.parent / name
    in_package = all((folder / "__init__.py").exists() for folder in (file.parent, outer.parent))
    return outer if in_package or outer.is_dir() else file.parent / name


def store_of(file: Path, order: tuple[str, ...] | None = None) -> Store:
    """The snapshots of a test file's cases. `order`: of the targets in them; the table's if left out."""
    return _store(folder_beside(file, EXPECTED), tuple(targets.targets()) if order is None else order)


def stores_beside(paths: Sequence[Path]) -> list[Store]:
    """The stores of test files, and of all test files in folders."""
    files = [file for path in paths for file in (sorted(path.rglob("test_*.py")) if path.is_dir() else [path])]
    found = {store.root.resolve(): store for store in map(store_of, files)}
    return list(found.values())


@functools.cache
def _store(root: Path, order: tuple[str, ...]) -> Store:
    return Store(root, order)
