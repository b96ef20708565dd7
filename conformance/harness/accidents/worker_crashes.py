"""Workers of pytest-xdist that end by accident: only the item that ran fails, for that reason."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conformance.harness.accidents.guarded_items import accident_report
from conformance.harness.accidents.process_end import MAX_ENDS_IN_A_ROW, ProcessEnd, record_accident
from conformance.storage.runs import Run

#: How a worker that ends on purpose begins the reason in its file.
_RETIRED = "retired: "
#: pytest-xdist's option: how many workers may be replaced. Its default, 4 for each worker, is for crashes by chance.
MANY_RESTARTS = str(10**6)
#: After so many workers that ended while they collected, the run ends: each worker collects the same files.
_MAX_ENDS_WHILE_COLLECTING = 3
_WAIT = 5.0  # seconds, until a worker that closed its connection has ended


def open_worker_file(run: Run, worker: str) -> int:
    """In a worker: begins its file. Returns a descriptor for faulthandler. Raises OSError."""
    path = run.worker_file(worker)
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_CREAT | os.O_TRUNC | os.O_RDWR | os.O_APPEND, 0o644)
    os.write(descriptor, f"{os.getpid()}\n".encode())
    return descriptor


class RetiringWorker:
    """A plugin for a worker: ends it after an item that broke its process, so that a fresh one runs the next items.

    `file`: the descriptor of the worker's file. `retired`: why this process must not run another item; "" if it may.
    `crashed`: whether an earlier worker crashed while it ran an item. --dist loadfile, loadscope and loadgroup would
    run it again.
    """

    def __init__(self, file: int, retired: Callable[[], str], crashed: Callable[[pytest.Item], bool]) -> None:
        self._file, self._retired, self._crashed = file, retired, crashed

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        """pytest-xdist has been told by now that the item before is complete."""
        if reason := self._retired():
            os.write(self._file, f"{_RETIRED}{reason}\n".encode())
            os._exit(0)
        return True if self._crashed(item) else None


class WorkerCrashes:
    """A plugin for the process that starts workers. `run`: returns the run, None if no worker has begun one.

    `limit`: the time limit of an item, in seconds.
    """

    def __init__(self, config: pytest.Config, run: Callable[[], Run | None], limit: float) -> None:
        self._config, self._run, self._limit = config, run, limit
        self._begun: dict[str, Any] = {}  # node id → location
        self._ended: set[str] = set()
        self._ends_in_a_row = 0
        self._last_end = ProcessEnd(None)

    def pytest_runtest_logstart(self, nodeid: str, location: Any) -> None:
        self._begun[nodeid] = location

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._ended.add(nodeid)
        self._ends_in_a_row = 0

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: Any) -> None:
        run = self._run()
        if not error or run is None:
            return
        process, text = _read_worker_file(run.worker_file(node.gateway.id))
        if _RETIRED in text:
            self._say(f"{text.partition(_RETIRED)[2].strip()}: a fresh process runs the next items")
            return
        self._last_end = ProcessEnd(_exit_status(process), text, self._limit)
        self._ends_in_a_row += 1
        if self._ends_in_a_row >= (MAX_ENDS_IN_A_ROW if self._begun else _MAX_ENDS_WHILE_COLLECTING):
            reason = f"{self._ends_in_a_row} processes in a row ended before they finished an item"
            self._stop(f"{reason}; the last one: {self._last_end.reason}")

    @pytest.hookimpl(optionalhook=True)
    def pytest_handlecrashitem(self, crashitem: str, report: pytest.TestReport, sched: Any) -> None:
        """pytest-xdist calls this for the first item that the worker did not finish: perhaps it had not begun."""
        run = self._run()
        if run is None or crashitem not in run.selected():
            return
        if crashitem in self._begun and crashitem not in self._ended:
            message = record_accident(run, crashitem, self._last_end)
            accident = accident_report(crashitem, self._begun[crashitem], message)
            vars(report).update(vars(accident) | {"node": report.node})
            return
        if crashitem not in self._ended:
            with contextlib.suppress(NotImplementedError):  # with --dist loadfile and its like, it is pending already
                sched.mark_test_pending(crashitem)
        # pytest-xdist logs this report in any case. A setup that passed counts as nothing.
        report.outcome, report.when, report.longrepr = "passed", "setup", None

    def _stop(self, reason: str) -> None:
        """Ends the run. pytest-xdist replaces a worker that crashed even when the run is to stop, so that ends too."""
        vars(self._config.pluginmanager.get_plugin("dsession")).update(shouldstop=reason, _max_worker_restart=0)

    def _say(self, line: str) -> None:
        if terminal := self._config.pluginmanager.get_plugin("terminalreporter"):
            terminal.write_line(f"\nconformance: {line}")


def _read_worker_file(path: Path) -> tuple[int, str]:
    """The worker's process id, 0 if unknown, and what else its file says."""
    with contextlib.suppress(OSError, ValueError):
        first, _, rest = path.read_text(encoding="utf-8", errors="replace").partition("\n")
        return int(first), rest
    return 0, ""


def _exit_status(process: int) -> int | None:
    """The exit status of a child process, -N for signal N; None if it is unknown. Leaves the child to its parent."""
    end = time.monotonic() + _WAIT
    while process and time.monotonic() < end:
        try:
            result = os.waitid(os.P_PID, process, os.WEXITED | os.WNOWAIT | os.WNOHANG)
        except ChildProcessError:
            return None
        if result is not None:
            return result.si_status if result.si_code == os.CLD_EXITED else -result.si_status
        time.sleep(0.01)
    return None
