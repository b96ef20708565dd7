"""What pytest collected: which of its tests are items of the suite, and which files declare cases."""

from __future__ import annotations

import functools
from collections.abc import Collection
from types import ModuleType

import pytest

from conformance.cases.case import cases_of
from conformance.cases.opt_outs import opt_outs
from conformance.harness.item.checks import Item
from conformance.harness.overlay.subset_selection import subset
from conformance.settings import Settings
from conformance.storage.runs import open_run


def is_conformance_item(item: pytest.Item) -> bool:
    return "conformance_item" in getattr(getattr(item, "callspec", None), "params", {})


def conformance_item(item: pytest.Item) -> Item:
    return item.callspec.params["conformance_item"]  # type: ignore[attr-defined] # pytest has it where @case is


def deselect(config: pytest.Config, options: Settings, items: list[pytest.Item]) -> None:
    """Deselects what --audit and --subset leave out: with one of them, all that is no item of the suite, too.

    --audit runs only items whose case opts out of something there; --subset only those that its file names. --missing
    leaves out the items that ended in a run. Raises RunError for a run that cannot be read.
    """
    if options.missing:
        ended = open_run(config.rootpath, options.missing).ended_items()
        _keep(config, items, [each for each in items if not _is_one_of(each, ended)])
    if not (options.audit or options.subset):
        return
    _keep(
        config,
        items,
        [test for test in items if is_conformance_item(test) and _is_chosen(options, conformance_item(test))],
    )


def _is_one_of(test: pytest.Item, names: Collection[str]) -> bool:
    return is_conformance_item(test) and conformance_item(test).name in names


def _keep(config: pytest.Config, items: list[pytest.Item], chosen: list[pytest.Item]) -> None:
    rest = set(items) - set(chosen)
    if rest:
        config.hook.pytest_deselected(items=[item for item in items if item in rest])
        items[:] = chosen


def _is_chosen(options: Settings, item: Item) -> bool:
    if options.audit and not opt_outs(item.case, item.target.name, item.target.device):
        return False
    return not options.subset or subset(options.subset).has(item.case, item.target.name)


def is_in_case_file(item: pytest.Item) -> bool:
    """Whether the test's file declares cases: it may be an explanation, which compiles too."""
    return _declares_cases(getattr(item, "module", None))


@functools.cache
def _declares_cases(module: ModuleType | None) -> bool:
    return module is not None and any(map(cases_of, vars(module).values()))
