"""Snapshots whose case no longer exists. Never what this machine or this selection could not produce."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from conformance.case import Case
from conformance.session import store_of
from conformance.snapshot import Store


def unused(cases: Sequence[Case], folders: Iterable[Path]) -> list[tuple[Store, str]]:
    """(store, case id), sorted, of the snapshots of no case.

    `cases`: all of the files below `folders`. A store is looked at where all test files that it may belong to are
    below them; an operator's snapshots where its file is gone, or gave cases: one that was skipped, or could not be
    imported here, has them elsewhere.
    """
    collected = [folder.resolve() for folder in folders]
    stores = {store.root: store for store in map(store_of, sorted({case.file for case in cases}))}
    found = []
    for store in stores.values():
        owner = store.root.resolve().parent
        if not all_collected(owner, collected):
            continue
        mine = {case.id for case in cases if store_of(case.file).root == store.root}
        gave = {case.operator for case in cases}
        files = {file.stem.removeprefix("test_") for folder in _near(owner) for file in folder.glob("test_*.py")}
        for case in store.cases():
            operator = case.partition("/")[0]
            if case not in mine and (operator in gave or operator not in files):
                found.append((store, case))
    return found


def all_collected(owner: Path, collected: Sequence[Path]) -> bool:
    """Whether all test files that share what is stored in `owner` are below the folders that were collected."""
    within = [folder for folder in _near(owner) if any(folder.glob("test_*.py"))]
    return all(any(folder.is_relative_to(each) for each in collected) for folder in within)


def _near(owner: Path) -> list[Path]:
    return [folder for folder in (owner, *owner.iterdir()) if folder.is_dir()]
