"""A guarded run in pytest: sends reports to the guardian; a fresh process repeats those of the processes before it."""

from __future__ import annotations

import io
import os
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from conformance.harness.accidents.guardian import BEGUN, COLLECTED, DONE, ENDED, REPORT, RETIRED, Link
from conformance.harness.accidents.process_end import AccidentError, record_accident
from conformance.storage.runs import Run

#: pytest's attribute for the time at which the session began.
_START = "_session_start"


class GuardedItems:
    """A plugin for the child of a guardian. `run`: returns the run, once the session has begun.

    `retired`: why this process must not run another item, such as a broken context of a GPU; "" if it may.
    """

    def __init__(self, config: pytest.Config, link: Link, run: Callable[[], Run], retired: Callable[[], str]) -> None:
        self._config, self._link, self._run, self._retired = config, link, run, retired
        self._repeats = False
        self._terminal: Any = None  # the writer of the terminal, while output is off

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self) -> None:
        if self._link.is_resumed:
            self._switch_output_off()

    def pytest_unconfigure(self) -> None:
        self._link.send(DONE)

    def pytest_collection_finish(self) -> None:
        """The first process passes its start on: so pytest's last line has the time of the whole run."""
        terminal, start = self._config.pluginmanager.get_plugin("terminalreporter"), self._link.past.start
        if start is not None and hasattr(terminal, _START):
            setattr(terminal, _START, start)
        self._link.send(COLLECTED, getattr(terminal, _START, None))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        past = self._link.past
        if item.nodeid not in past.ended and item.nodeid not in past.accidents:
            self._switch_output_on()
            if past.give_up:
                item.session.shouldstop = past.give_up
                return True
            self._link.send(BEGUN, item.nodeid)
            return None
        self._repeats = True
        hook = item.ihook
        hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        for report in self._reports(item):
            hook.pytest_runtest_logreport(report=report)
        hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        self._repeats = False
        return True

    def _reports(self, item: pytest.Item) -> list[pytest.TestReport]:
        past, hook = self._link.past, self._config.hook
        data = [pickle.loads(each) for each in past.reports.get(item.nodeid, ())]  # noqa: S301 - this run's own child
        reports = [hook.pytest_report_from_serializable(config=self._config, data=each) for each in data]
        if end := past.accidents.get(item.nodeid):
            reports.append(accident_report(item.nodeid, item.location, record_accident(self._run(), item.nodeid, end)))
        return reports

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Sends the report as the terminal has counted it: pytest marks an item with a failed check as failed there."""
        if not self._repeats:
            data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
            self._link.send(REPORT, data)

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        if self._repeats:
            return
        self._link.send(ENDED, nodeid)
        if reason := self._retired():
            self._link.send(RETIRED, reason)
            os._exit(0)

    def pytest_sessionfinish(self) -> None:
        self._switch_output_on()

    def _switch_output_off(self) -> None:
        """What this process repeats is on the terminal already."""
        terminal: Any = self._config.pluginmanager.get_plugin("terminalreporter")
        if terminal is not None:
            self._terminal = terminal._tw  # noqa: SLF001 - pytest has no public way to switch its output off
            terminal._tw = type(self._terminal)(io.StringIO())  # noqa: SLF001 - as above

    def _switch_output_on(self) -> None:
        if self._terminal is not None:
            terminal: Any = self._config.pluginmanager.get_plugin("terminalreporter")
            terminal._tw, self._terminal = self._terminal, None  # noqa: SLF001 - as above
            terminal.currentfspath = None


def accident_report(node_id: str, location: Any, message: str) -> pytest.TestReport:
    """The report of an item that did not end, because its process did."""
    with pytest.raises(AccidentError) as caught:
        raise AccidentError(message)
    text = caught.getrepr(style="value")
    if text.reprcrash is not None:
        text.reprcrash.message = message  # without the name of the class, the summary of failures shows the reason
    return pytest.TestReport(node_id, location, {}, "failed", text, "call", is_accident=True)
