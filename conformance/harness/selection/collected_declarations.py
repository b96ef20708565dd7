"""The declarations of what pytest collected: refuses wrong ones, and notes what is stored for cases that are gone."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from conformance.cases.case import Case, cases_of
from conformance.cases.first_mistakes import parametrised
from conformance.cases.roots import OPS, is_own_case_file
from conformance.errors import ConformanceError
from conformance.expectations.requirements import without_selectors
from conformance.harness.collected import conformance_item, is_conformance_item
from conformance.harness.configuration import pytest_options
from conformance.harness.ending import summary
from conformance.harness.schedule.workers import is_worker
from conformance.harness.session import Session
from conformance.harness.subtests import WrongDeclarationsItem
from conformance.settings import option_name
from conformance.sources.source_in_use import refuse_other_files
from conformance.storage.unused import prune_advice, unused_snapshots


def tests_of(items: Sequence[pytest.Item]) -> list[Any]:
    """The functions with cases in the modules of the collected items."""
    modules = {item.module: None for item in items if isinstance(item, pytest.Function) and is_conformance_item(item)}
    return [value for module in modules for value in vars(module).values() if cases_of(value)]


def refuse_parametrised(function: pytest.Function) -> None:
    """Raises pytest.UsageError for a function with cases that has pytest's own mark, above @case."""
    for mark in function.iter_markers("parametrize"):
        line = cases_of(function.obj)[0].fn.__code__.co_firstlineno
        raise pytest.UsageError(f"{os.path.relpath(function.path)}:{line}: {function.name}: {parametrised(mark)}")


def items_of_wrong_files(items: list[pytest.Item]) -> list[pytest.Item]:
    """An item for each file in which keywords of @case lack their selectors: it fails with all of them.

    Takes the file's cases out of `items`.
    """
    wrong: dict[Path, list[str]] = {}
    for case in (test.cases[0] for test in tests_of(items)):
        for problem in without_selectors(case):
            start = f"{os.path.relpath(case.file)}:{case.fn.__code__.co_firstlineno}: test_{case.name}: "
            wrong.setdefault(case.file, []).append(f"{start}{problem}")
    of_wrong = [each for each in items if is_conformance_item(each) and conformance_item(each).case.file in wrong]
    items[:] = [each for each in items if each not in of_wrong]
    parents = {conformance_item(each).case.file: each.parent for each in of_wrong if each.parent}
    return [
        WrongDeclarationsItem.from_parent(parent, name="declarations", message="\n".join(wrong[file]))
        for file, parent in parents.items()
    ]


def problem(config: pytest.Config, session: Session, items: list[pytest.Item], *, all_imported: bool) -> str:
    """Why the cases are declared wrongly, or "". Outside workers, raises pytest.UsageError instead of returning it.

    `all_imported`: whether every file could be imported.
    """
    tests = tests_of(items)
    if not tests:
        return ""
    try:
        refuse_other_files(option_name("torch-source"))
        check(config, session, tests, all_imported=all_imported)
    except ConformanceError as error:
        if not is_worker(config):
            raise pytest.UsageError(str(error)) from None
        return str(error)
    return ""


def check(config: pytest.Config, session: Session, tests: Sequence[Any], *, all_imported: bool = True) -> None:
    """Checks the declarations of all cases of the tests. If the run selects all cases, notes unused snapshots.

    `all_imported`: whether every file could be imported; if not, nobody knows which cases there are.
    Raises ConformanceError for a wrong declaration.
    """
    cases = {id(case): case for test in tests for case in test.cases}
    folders = _collected_folders(config) if all_imported else []
    summary.refuse_wrong_declarations(
        session,
        list(cases.values()),
        folders,
        combined=lambda: [case for test in tests for case in test.combined()],
        all_imported=all_imported,
    )
    if all_imported and not pytest_options.selects(config):
        _note_unused(session, list(cases.values()), folders)


def _note_unused(session: Session, cases: Sequence[Case], folders: Sequence[Path]) -> None:
    overlay = session.settings.overlay.store
    names: dict[str, list[str]] = {}
    for store, case in unused_snapshots(cases, folders, overlay):
        names.setdefault(str(store.root), []).append(case)
    arguments = [os.path.relpath(folder) for folder in folders if folder.resolve() != OPS.resolve()]
    advice = {root: prune_advice(Path(root), arguments, overlay) for root in names}
    if names:
        session.run.write_unused_snapshots(names, advice)


def _collected_folders(config: pytest.Config) -> list[Path]:
    """The folders of the command line; none where an option or a path leaves a part of them out."""
    if any(config.getoption(name, None) for name in ("deselect", "ignore", "ignore_glob", "lf", "pyargs")):
        return []
    folders = [Path(config.invocation_params.dir, argument) for argument in config.args]
    return folders if all(folder.is_dir() for folder in folders) else []


_PACKAGE = Path(__file__).parents[2]


def declaration_line(excinfo: pytest.ExceptionInfo[BaseException]) -> str:
    """FILE:LINE of the code that called into this package, if the error was raised in the package; else ""."""
    *outer, inner = excinfo.traceback
    if not _is_harness_file(inner.path):
        return ""
    for entry in reversed(outer):
        if not _is_harness_file(entry.path):
            return f"{os.path.relpath(entry.path)}:{entry.lineno + 1}"
    return ""


def _is_harness_file(file: str | Path) -> bool:
    """Whether a file belongs to this package and is no file of cases."""
    return Path(file).is_relative_to(_PACKAGE) and not is_own_case_file(Path(file))
