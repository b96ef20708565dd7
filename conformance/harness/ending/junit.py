"""The JUnit file of pytest, with a test case for each check. pytest itself writes one for each item and counts failures
twice. report/junit_report.py writes the same entries of several runs.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from _pytest.junitxml import LogXML
else:
    LogXML = object


#: The names of properties that belong to one check begin with this; the check's name follows.
PROPERTY = "conformance."
#: The property `conformance.format` of a test suite; docs/formats.md describes the entries.
FORMAT = 1


class ChecksAsTests(LogXML):
    """Mixed into pytest's own JUnit plugin: passes each check on as a test of its own.

    `ops/test_flip.py::test_hflip[…]` becomes the test `test_hflip[…]` of the class `ops.test_flip.numerics`. The item's
    own reports are passed on only where its process ended, or where it ran no checks: it failed to compile, or pytest
    skipped the whole item.
    """

    #: Items, as (node id, worker), that have reported a check.
    items_with_checks: set[tuple[str, Any]]
    #: The reports of items' setup. Each would open an entry in the XML, so it waits until the item needs one.
    setup_reports: dict[tuple[str, Any], pytest.TestReport]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        item = (report.nodeid, getattr(report, "node", None))
        log = super().pytest_runtest_logreport
        if isinstance(report, pytest.SubtestReport):
            self.items_with_checks.add(item)
            self.setup_reports.pop(item, None)
            for each in _as_test(report):
                log(each)
        elif report.when == "setup" and report.passed:
            self.setup_reports[item] = report
        elif (
            item not in self.items_with_checks
            or hasattr(report, "is_accident")
            or (report.when == "teardown" and report.failed)
        ):
            if item in self.setup_reports:
                log(self.setup_reports.pop(item))
            log(report)
        if report.when == "teardown":
            self.items_with_checks.discard(item)


def _as_test(report: pytest.SubtestReport) -> list[pytest.TestReport]:
    """The check's report as that of a test, and a teardown report, which closes its entry."""
    path, _, rest = report.nodeid.partition("::")
    test, teardown = copy.copy(report), copy.copy(report)
    check = str(report.context.msg)
    for each in (test, teardown):
        each.nodeid = f"{path}::{check}::{rest}"
        each.user_properties = [pair for pair in report.user_properties if _belongs_to(pair[0], check)]
    teardown.when, teardown.outcome, teardown.longrepr = "teardown", "passed", None
    teardown.duration, teardown.sections = 0.0, []
    return [test, teardown]


def _belongs_to(name: str, check: str) -> bool:
    """Whether a property of the item belongs to this check: not if its name is that of another check."""
    return not name.startswith(PROPERTY) or check.startswith(name.removeprefix(PROPERTY))


def install(config: pytest.Config) -> None:
    """Changes pytest's JUnit plugin, if the user asked for JUnit XML. It stays the one object that pytest knows."""
    plugins = config.pluginmanager
    for plugin in list(plugins.get_plugins()):
        if type(plugin).__name__ == "LogXML":
            plugins.unregister(plugin)
            plugin.__class__ = type("ChecksInJUnit", (ChecksAsTests, type(plugin)), {})
            plugin.items_with_checks, plugin.setup_reports = set(), {}
            plugin.add_global_property(f"{PROPERTY}format", FORMAT)
            plugins.register(plugin)
