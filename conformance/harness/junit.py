"""JUnit XML: one test case a check, named for it, instead of one an item with its failures counted twice."""

from __future__ import annotations

import copy

import pytest


class ChecksApart:
    """Mixed into pytest's own JUnit plugin: each check is handed on as a test of its own.

    `ops/test_flip.py::test_hflip[…]` becomes test `test_hflip[…]` of class `ops.test_flip.numerics`. The item's own
    reports go on only where it ran no checks: it failed to compile, or was skipped as a whole.
    """

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        with_checks, held = self.__dict__.setdefault("_checks", set()), self.__dict__.setdefault("_held", {})
        key = (report.nodeid, getattr(report, "node", None))
        log = super().pytest_runtest_logreport
        if isinstance(report, pytest.SubtestReport):
            with_checks.add(key)
            held.pop(key, None)
            for each in _as_test(report):
                log(each)
        elif report.when == "setup" and report.passed:
            held[key] = report  # it would open an entry, and whether the item needs one is not known yet
        elif key not in with_checks or (report.when == "teardown" and report.failed):
            if key in held:
                log(held.pop(key))
            log(report)
        if report.when == "teardown":
            with_checks.discard(key)


def _as_test(report: pytest.SubtestReport) -> list[pytest.TestReport]:
    """The check's report under a name of its own, and the teardown that closes its entry."""
    path, _, rest = report.nodeid.partition("::")
    test, closing = copy.copy(report), copy.copy(report)
    for each in (test, closing):
        each.nodeid = f"{path}::{report.context.msg}::{rest}"
    closing.when, closing.outcome, closing.longrepr, closing.duration, closing.sections = (
        "teardown",
        "passed",
        None,
        0.0,
        [],
    )
    return [test, closing]


def install(config: pytest.Config) -> None:
    """Where JUnit XML was asked for. The plugin stays the one object that pytest knows and ends."""
    plugins = config.pluginmanager
    for plugin in list(plugins.get_plugins()):
        if type(plugin).__name__ == "LogXML":
            name = plugins.unregister(plugin) and None
            plugin.__class__ = type("ChecksInJUnit", (ChecksApart, type(plugin)), {})
            plugins.register(plugin, name)
