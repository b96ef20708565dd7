"""Finds stored snapshots and binaries whose case no longer exists.

It never reports what this machine or this selection could not collect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from conformance.cases.case import Case
from conformance.cases.roots import SWEEP
from conformance.storage import binaries
from conformance.storage.installed import installed_package
from conformance.storage.locations import has_folders_of_its_own, overlay_root, snapshot_store
from conformance.storage.snapshots import Store


def unused_snapshots(cases: Sequence[Case], folders: Iterable[Path], overlay: str = "") -> list[tuple[Store, str]]:
    """Returns (store, case id) of each snapshot without a case, sorted.

    `cases`: all cases of the test files in `folders`. Leaves out a store if test files outside `folders` may use it.
    Reports snapshots of an operator only if its test file is gone, or has cases: a test file without cases was skipped
    or cannot be imported on this machine.
    `overlay`: a folder that is laid over the stores. Of its snapshots, reports those of operators that have cases: the
    test files of others may be elsewhere.
    """
    stores = _stores(cases, folders, overlay)
    return [(store, case) for store, is_gone in stores for case in store.cases() if is_gone(case)]


def unused_binaries(cases: Sequence[Case], folders: Iterable[Path], overlay: str = "") -> list[tuple[Path, list[str]]]:
    """Returns (file, case ids) of the binaries without a case, as unused_snapshots does. Raises BinaryFileError."""
    unused = []
    for store, is_gone in _stores(cases, folders, overlay):
        for file in binaries.files_beside(store.root):
            gone = [case for case in binaries.read(file).case_ids(file) if is_gone(case)]
            unused += [(file, gone)] if gone else []
    return unused


def _stores(
    cases: Sequence[Case], folders: Iterable[Path], overlay: str
) -> Iterator[tuple[Store, Callable[[str], bool]]]:
    """Yields each store whose test files are all in `folders`, and a function: is the case with this id gone?

    Last comes the store of the overlay, if there is one.
    """
    complete: set[str] = set()  # the cases of all stores whose test files are in `folders`
    collected = [folder.resolve() for folder in folders]
    stores = {file: snapshot_store(file) for file in sorted({case.file for case in cases})}
    for store in {store.root: store for store in stores.values()}.values():
        owner = store.root.resolve().parent
        if not all_collected(owner, collected):
            continue
        case_ids = {case.id for case in cases if stores[case.file].root == store.root}
        complete |= case_ids
        with_cases = {case.operator for case in cases}
        with_files = {
            file.stem.removeprefix("test_") for folder in _test_folders(owner) for file in folder.glob("test_*.py")
        }

        def is_gone(
            case: str,
            case_ids: set[str] = case_ids,
            with_cases: set[str] = with_cases,
            with_files: set[str] = with_files,
        ) -> bool:
            operator = case.partition("/")[0]
            return case not in case_ids and (operator in with_cases or operator not in with_files)

        yield store, is_gone
    if overlay:
        operators = {case.partition("/")[0] for case in complete}
        yield Store(overlay_root(overlay)), lambda case: case not in complete and case.partition("/")[0] in operators


def prune_advice(root: Path, arguments: Sequence[str], overlay: str) -> str:
    """How to remove the unused snapshots of a store. `arguments`: the folders of its cases."""
    if package := installed_package(root):
        return f"they come with the installed package {package}"
    words = [
        "python -m conformance prune",
        *arguments,
        *(("--store", overlay) if root == overlay_root(overlay) else ()),
    ]
    return f"remove with: {' '.join(words)}"


def all_collected(owner: Path, collected: Sequence[Path]) -> bool:
    """Returns whether the collected folders contain all test files whose stored files are in the folder `owner`.

    Never for the sweep: a run has a part of its cases, however it is called.
    """
    if owner.resolve() == SWEEP.resolve():
        return False
    folders = [folder for folder in _test_folders(owner) if any(folder.glob("test_*.py"))]
    return all(any(folder.is_relative_to(each) for each in collected) for folder in folders)


def _test_folders(owner: Path) -> list[Path]:
    below = [folder for folder in owner.iterdir() if folder.is_dir() and not has_folders_of_its_own(folder)]
    return [owner, *below] if owner.is_dir() else below
