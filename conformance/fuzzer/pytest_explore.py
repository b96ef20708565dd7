"""The pytest plugin of `--conformance-explore MINUTES`: it makes programs of the selected cases, and runs no item."""

from __future__ import annotations

import os
import warnings
from typing import Any

import pytest

from conformance.errors import ConformanceError
from conformance.fuzzer.case_search import search_cases
from conformance.harness.collected import conformance_item, is_conformance_item
from conformance.harness.configuration.pytest_options import OPTIONS, option
from conformance.harness.item.checks import Item
from conformance.harness.schedule.workers import worker_count
from conformance.settings import ACCEPT, option_name

#: Options that have a meaning beside it, named as in OPTIONS: they select cases and targets, or make other programs.
_BESIDE = frozenset(
    ("explore", "device", "target", "variants", "quick", "require-device", "subset", "affected-by", "coverage-map",
     "seed", "targets", "known-failures")
)  # fmt: skip
_ITEMS = pytest.StashKey[list[Item]]()
_JOBS = pytest.StashKey[int]()
_FINDINGS = pytest.StashKey[int]()


def take_workers(config: pytest.Config) -> None:
    """Each worker of pytest-xdist would have a search of its own: `-n 4` checks four programs at a time instead."""
    config.stash[_JOBS] = worker_count(config) if config.getoption("numprocesses", None) else 2
    without: dict[str, Any] = {"numprocesses": None, "dist": "no", "tx": []}
    for name, value in without.items():
        if hasattr(config.option, name):
            setattr(config.option, name, value)


def pytest_configure(config: pytest.Config) -> None:
    """Refuses what has no meaning for a search."""
    minutes = option(config, "explore")
    if not minutes > 0:
        raise pytest.UsageError(f"{option_name('explore')} {minutes:g}: give minutes above 0")
    if os.environ.get(ACCEPT):
        raise pytest.UsageError(f"{option_name('explore')} runs no item, so {ACCEPT} accepts nothing: unset it")
    for name, keywords in OPTIONS.items():
        if name not in _BESIDE and option(config, name) not in (None, False, [], keywords.get("default")):
            raise pytest.UsageError(
                f"{option_name('explore')} runs no item, so {option_name(name)} has no meaning: leave one of them out"
            )


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Takes what -k, --subset and others have selected."""
    config.stash[_ITEMS] = [conformance_item(item) for item in items if is_conformance_item(item)]
    if items and not config.option.collectonly:
        config.hook.pytest_deselected(items=items[:])
        items.clear()


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Searches in place of the items."""
    config = session.config
    items = config.stash.get(_ITEMS, [])
    if config.option.collectonly or not items:
        return None
    started = items[0].session
    cases = list({item.case.id: item.case for item in items}.values())
    targets = list(dict.fromkeys(item.target.name for item in items))
    names_targets = option(config, "target") or option(config, "device")
    terminal: Any = config.pluginmanager.get_plugin("terminalreporter")
    terminal.write_line("")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the import of torch: what the search compiles has its own processes
            started.set_up_torch()
        config.stash[_FINDINGS] = search_cases(
            started.compiler,
            cases,
            sorted({str(case.file) for case in cases}),
            targets if names_targets else targets[:1],
            seed=started.settings.seed,
            minutes=option(config, "explore"),
            jobs=config.stash[_JOBS],
            folder=None,
            overlay=started.settings.overlay,
            say=lambda line: terminal.write_line(line, flush=True),
        )
    except ConformanceError as error:
        raise pytest.UsageError(str(error)) from None
    return True


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Says whether there are findings, where pytest says that no item ran."""
    found = session.config.stash.get(_FINDINGS, None)
    if found is not None and session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED if found else pytest.ExitCode.OK
