"""Shows the progress of a run: beside pytest's percentage in a terminal, and as plain lines in a log."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from conformance.harness.schedule.batches import scheduled_items
from conformance.harness.schedule.progress import Progress
from conformance.harness.session import Session
from conformance.storage import durations
from conformance.storage.runs import private_folder

#: A run that takes less than so many seconds shows pytest's percentage only.
_SHORT_RUN = 20.0
#: Seconds between two lines of a log.
INTERVAL = 30.0
#: pytest's methods that write its percentage. It has no public way to change that text.
_MESSAGE = "_get_progress_information_message"
_AT_THE_EDGE = "_write_progress_information_if_past_edge"


class ProgressReporter:
    """A plugin for the process that the user started. It also keeps the durations for the next run."""

    def __init__(self, config: pytest.Config, session: Session) -> None:
        self._config, self._session = config, session
        self._folder = private_folder(config.rootpath)
        self._progress: Progress | None = None
        self._seconds: defaultdict[str, float] = defaultdict(float)  # node id → seconds of its phases
        self._durations: dict[str, float] = {}  # node id → seconds, of those that ended
        self._began = self._last_line = time.monotonic()
        self._in_terminal = False

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        if not self._config.option.collectonly:
            self._begin([item.nodeid for item in session.items])

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        if self._progress is None:
            self._begin(ids)

    def _begin(self, node_ids: Sequence[str]) -> None:
        known = durations.read(self._folder)
        items = scheduled_items(node_ids, known)
        if not any(item.target for item in items):
            return
        session = self._session
        native = {
            each.name for each in session.selected_targets if each.device == "cpu" and session.mode(each) == "native"
        }
        self._progress = Progress(items, session.workers, native=native, is_known=bool(known))
        self._began = self._last_line = time.monotonic()
        terminal = self._config.pluginmanager.get_plugin("terminalreporter")
        names = (_MESSAGE, _AT_THE_EDGE, "_show_progress_info", "_width_of_current_line", "_tw")
        if terminal is None or not all(hasattr(terminal, name) for name in names):
            return
        self._in_terminal = bool(terminal.isatty() and getattr(terminal, "_show_progress_info"))  # noqa: B009 - private
        if self._in_terminal:
            _show_beside_percentage(terminal, self._suffix)

    def _suffix(self) -> str:
        if self._progress is None or time.monotonic() - self._began + self._progress.seconds_left < _SHORT_RUN:
            return ""
        return self._progress.suffix

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        if self._progress is not None:
            self._progress.begin(nodeid)

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if self._progress is None:
            return
        if report.failed:
            self._progress.fail(report.nodeid)
        if not isinstance(report, pytest.SubtestReport):
            self._seconds[report.nodeid] += report.duration
        if getattr(report, "is_accident", False):
            self._progress.end(report.nodeid, 0.0)

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        if self._progress is None:
            return
        seconds = self._seconds.pop(nodeid, 0.0)
        self._durations[nodeid] = seconds
        self._progress.end(nodeid, seconds)
        now = time.monotonic()
        if not self._in_terminal and now - self._last_line >= INTERVAL and self._config.option.verbose > -2:
            self._last_line = now
            self._write_line(f"conformance: {self._progress.line}")

    def _write_line(self, line: str) -> None:
        terminal: Any = self._config.pluginmanager.get_plugin("terminalreporter")
        if terminal is None:
            return
        terminal.ensure_newline()
        if getattr(terminal, "_width_of_current_line", 0):  # dots without the name of a file
            terminal.write("\n")
        terminal.write_line(line)

    def pytest_sessionfinish(self) -> None:
        if self._durations:
            durations.merge(self._folder, self._config.rootpath, self._durations)


def _show_beside_percentage(terminal: Any, suffix: Callable[[], str]) -> None:
    """Makes pytest write " [ 34%, 3 failed, 4 min left]" wherever it writes " [ 34%]" and there is room."""
    original = getattr(terminal, _MESSAGE)

    def width() -> int:
        return terminal._width_of_current_line  # noqa: SLF001 - as at _MESSAGE

    def longest() -> str:
        text = original()
        return f"{text[:-1]}{suffix()}]" if text.endswith("]") and "100%" not in text else text

    def message() -> str:
        text = longest()
        return text if width() + len(text) < terminal._tw.fullwidth else original()  # noqa: SLF001 - as at _MESSAGE

    def write_at_the_edge() -> None:
        if width() + len(longest()) + 1 >= terminal._tw.fullwidth:  # noqa: SLF001 - as at _MESSAGE
            colour, _ = terminal._get_main_color()  # noqa: SLF001 - as at _MESSAGE
            terminal.write(f"{message()}\n", **{colour: True})

    setattr(terminal, _MESSAGE, message)
    setattr(terminal, _AT_THE_EDGE, write_at_the_edge)
