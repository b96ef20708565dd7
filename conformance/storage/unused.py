"""What is stored of cases that no longer exist. Never what this machine or this selection could not produce."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from conformance.cases.case import Case
from conformance.storage import binaries
from conformance.storage.locations import store_of
from conformance.storage.snapshots import Store


def unused(cases: Sequence[Case], folders: Iterable[Path]) -> list[tuple[Store, str]]:
    """(store, case id), sorted, of the snapshots of no case.

    `cases`: all of the files below `folders`. A store is looked at where all test files that it may belong to are
    below them; an operator's snapshots where its file is gone, or gave cases: one that was skipped, or could not be
    imported here, has them elsewhere.
    """
    return [(store, case) for store, is_gone in _stores(cases, folders) for case in store.cases() if is_gone(case)]


def unused_binaries(cases: Sequence[Case], folders: Iterable[Path]) -> list[tuple[Path, list[str]]]:
    """(file, case ids), likewise, of the binaries of no case. Raises BinaryFileError."""
    found = []
    for store, is_gone in _stores(cases, folders):
        for file in binaries.files_beside(store.root):
            gone = [case for case in binaries.read(file).cases(file) if is_gone(case)]
            found += [(file, gone)] if gone else []
    return found


def _stores(cases: Sequence[Case], folders: Iterable[Path]) -> Iterator[tuple[Store, Callable[[str], bool]]]:
    """Each store that may be looked at, and whether a case that something is stored for there is gone."""
    collected = [folder.resolve() for folder in folders]
    for store in {store.root: store for store in map(store_of, sorted({case.file for case in cases}))}.values():
        owner = store.root.resolve().parent
        if not all_collected(owner, collected):
            continue
        mine = {case.id for case in cases if store_of(case.file).root == store.root}
        gave = {case.operator for case in cases}
        files = {file.stem.removeprefix("test_") for folder in _near(owner) for file in folder.glob("test_*.py")}

        def is_gone(case: str, mine: set[str] = mine, gave: set[str] = gave, files: set[str] = files) -> bool:
            operator = case.partition("/")[0]
            return case not in mine and (operator in gave or operator not in files)

        yield store, is_gone


def all_collected(owner: Path, collected: Sequence[Path]) -> bool:
    """Whether all test files that share what is stored in `owner` are below the folders that were collected."""
    within = [folder for folder in _near(owner) if any(folder.glob("test_*.py"))]
    return all(any(folder.is_relative_to(each) for each in collected) for folder in within)


def _near(owner: Path) -> list[Path]:
    return [folder for folder in (owner, *owner.iterdir()) if folder.is_dir()]
