"""Runs jobs in forked copies of this process, a few at a time, with limits."""

from __future__ import annotations

import json
import os
import resource
import signal
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

#: Of one job. A copy may use so much CPU time, so much time in all, and so much memory beyond the parent's.
CPU_SECONDS, WALL_SECONDS, MORE_BYTES = 90, 600, 6 << 30
_POLL_SECONDS = 0.02

Note = Callable[[Any], None]


def outcomes(jobs: Iterable[Any], function: Callable[[Any, Note], Any], workers: int) -> Iterator[tuple[Any, Any, str]]:
    """Yields (job, result, how its process ended) in the order of the jobs.

    `function` runs in a copy of this process. It returns something that JSON can hold. Where its process does not end
    by itself, the result is what it noted last, and the third value says how it ended: "killed after …", "signal 11".
    The third value is "" otherwise. Ends the copies that still run when the caller stops.
    """
    running: dict[int, tuple[int, float, Path]] = {}
    ended: dict[int, tuple[Any, str]] = {}
    waiting = iter(enumerate(jobs))
    kept: dict[int, Any] = {}
    following, exhausted = 0, False
    with tempfile.TemporaryDirectory(prefix="mutants-pool-") as folder:
        try:
            while True:
                while len(running) < workers and not exhausted:
                    number, job = next(waiting, (-1, None))
                    if number < 0:
                        exhausted = True
                        break
                    kept[number] = job
                    file = Path(folder) / f"{number}.json"
                    running[_fork(function, job, file)] = (number, time.monotonic(), file)
                _reap(running, ended)
                while following in ended:
                    result, how = ended.pop(following)
                    yield kept.pop(following), result, how
                    following += 1
                if exhausted and not running:
                    return
                time.sleep(_POLL_SECONDS)
        finally:
            for process in running:
                os.killpg(process, signal.SIGKILL)
                os.waitpid(process, 0)


def _reap(running: dict[int, tuple[int, float, Path]], ended: dict[int, tuple[Any, str]]) -> None:
    for process, (number, start, file) in list(running.items()):
        how = ""
        if time.monotonic() - start > WALL_SECONDS:
            os.killpg(process, signal.SIGKILL)
            os.waitpid(process, 0)
            how = f"killed after {WALL_SECONDS} s"
        else:
            found, status = os.waitpid(process, os.WNOHANG)
            if not found:
                continue
            if os.WIFSIGNALED(status):
                number_of_signal = os.WTERMSIG(status)
                how = f"signal {number_of_signal}"
                if number_of_signal == signal.SIGXCPU:
                    how = f"killed after {CPU_SECONDS} s of CPU time"
            elif os.WEXITSTATUS(status):
                how = f"exit status {os.WEXITSTATUS(status)}"
        del running[process]
        ended[number] = (json.loads(file.read_text()) if file.exists() else None, how)


def _fork(function: Callable[[Any, Note], Any], job: Any, file: Path) -> int:
    process = os.fork()
    if process:
        return process
    status = 1
    try:
        os.setpgid(0, 0)  # the compiler's processes end with this one
        _limit()
        silent = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(silent, stream)
        _write(file, function(job, lambda value: _write(file, value)))
        status = 0
    finally:
        os._exit(status)
    return 0


def _write(file: Path, value: Any) -> None:
    new = file.with_suffix(".new")
    new.write_text(json.dumps(value))
    new.replace(file)


def _limit() -> None:
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 5))
    resource.setrlimit(resource.RLIMIT_AS, (used + MORE_BYTES, used + MORE_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
