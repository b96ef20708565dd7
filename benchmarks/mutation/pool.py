"""Runs jobs in forked copies of this process, a few at a time, with limits."""

from __future__ import annotations

import json
import os
import resource
import signal
import tempfile
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: Of one job. A copy may use so much CPU time and so much memory beyond the parent's; it may take so many times its
#: CPU time.
CPU_SECONDS, MORE_BYTES, WALL_PER_CPU = 90, 6 << 30, 7
_POLL_SECONDS = 0.02

Note = Callable[[Any], None]


class Pool:
    """Runs jobs in copies of this process, at most `workers` at a time. Its exit ends those that still run."""

    def __init__(self, workers: int, cpu_seconds: int = CPU_SECONDS) -> None:
        self.workers, self._cpu_seconds = workers, cpu_seconds
        self._folder = tempfile.TemporaryDirectory(prefix="mutants-pool-")
        self._waiting: deque[tuple[Any, Callable[[Note], Any]]] = deque()
        self._running: dict[int, tuple[Any, float, Path]] = {}
        self._started = 0

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._running:
            os.killpg(process, signal.SIGKILL)
            os.waitpid(process, 0)
        self._folder.cleanup()

    def submit(self, key: Any, job: Callable[[Note], Any], *, first: bool = False) -> None:
        """`job` runs in a copy of this process as it is when the job starts. It returns something that JSON can hold.

        `first`: before all jobs that wait.
        """
        (self._waiting.appendleft if first else self._waiting.append)((key, job))

    def next(self) -> tuple[Any, Any, str]:
        """Waits until a job ends. Returns its key, its result, and how its process ended.

        Where the process does not end by itself, the result is what it noted last, and the third value says how it
        ended: "killed after …", "signal 11". The third value is "" otherwise. At least one job must be open.
        """
        while True:
            while self._waiting and len(self._running) < self.workers:
                key, job = self._waiting.popleft()
                file = Path(self._folder.name) / f"{self._started}.json"
                self._started += 1
                self._running[_fork(job, file, self._cpu_seconds)] = (key, time.monotonic(), file)
            for process, (key, start, file) in self._running.items():
                how = _ended(process, start, self._cpu_seconds)
                if how is not None:
                    del self._running[process]
                    return key, json.loads(file.read_text()) if file.exists() else None, how
            time.sleep(_POLL_SECONDS)


def _ended(process: int, start: float, cpu_seconds: int) -> str | None:
    """How a process ended: "" by itself; None while it runs. Ends a process that has run for too long."""
    if time.monotonic() - start > WALL_PER_CPU * cpu_seconds:
        os.killpg(process, signal.SIGKILL)
        os.waitpid(process, 0)
        return f"killed after {WALL_PER_CPU * cpu_seconds} s"
    found, status = os.waitpid(process, os.WNOHANG)
    if not found:
        return None
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return f"killed after {cpu_seconds} s of CPU time" if number == signal.SIGXCPU else f"signal {number}"
    return f"exit status {os.WEXITSTATUS(status)}" if os.WEXITSTATUS(status) else ""


def _fork(job: Callable[[Note], Any], file: Path, cpu_seconds: int) -> int:
    process = os.fork()
    if process:
        return process
    status = 1
    try:
        os.setpgid(0, 0)  # the compiler's processes end with this one
        _limit(cpu_seconds)
        silent = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(silent, stream)
        _write(file, job(lambda value: _write(file, value)))
        status = 0
    finally:
        os._exit(status)
    return 0


def _write(file: Path, value: Any) -> None:
    new = file.with_suffix(".new")
    new.write_text(json.dumps(value))
    new.replace(file)


def _limit(cpu_seconds: int) -> None:
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 5))
    resource.setrlimit(resource.RLIMIT_AS, (used + MORE_BYTES, used + MORE_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
