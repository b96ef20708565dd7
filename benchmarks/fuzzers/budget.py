"""Runs commands until their processes have used a number of CPU seconds. Linux alone."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_SET_CHILD_SUBREAPER = 36
_TICKS = os.sysconf("SC_CLK_TCK")
#: Seconds between two looks at the processes, and until a process that was asked to end is killed.
_LOOK, _PATIENCE = 0.5, 30.0


@dataclass(frozen=True)
class Ran:
    """`stopped`: it ended because its time was over. `status`: of the process, else."""

    cpu: float
    wall: float
    stopped: bool
    status: int


def run(
    command: Sequence[str | Path], log: Path, *, cpu: float, wall: float, variables: Mapping[str, str], folder: Path
) -> Ran:
    """Runs a command, with its output in `log`, until it ends or has used `cpu` seconds, or `wall` of the clock.

    Counts all its processes, also those whose parent has ended. This process should have no other children.
    """
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # orphans become children of this process
    before, start = _used(), time.monotonic()
    with log.open("ab") as output:
        process = subprocess.Popen(
            [str(word) for word in command],
            cwd=folder,
            env=os.environ | dict(variables),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    stopped = False
    try:
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_LOOK)
                break
            if _used() - before > cpu or time.monotonic() - start > wall:
                stopped = True
                break
    finally:
        _end(process)
    return Ran(_used() - before, time.monotonic() - start, stopped, process.returncode)


def _used() -> float:
    """CPU seconds of all processes below this one, dead or alive."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime + sum(seconds for _, seconds in _below())


def _below() -> Iterator[tuple[int, float]]:
    """The processes below this one, and their CPU seconds with those of their children that have ended."""
    seconds: dict[int, float] = {}
    children: dict[int, list[int]] = {}
    for place in Path("/proc").iterdir():
        if not place.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            values = (place / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
            seconds[int(place.name)] = sum(map(int, values[11:15])) / _TICKS
            children.setdefault(int(values[1]), []).append(int(place.name))
    waiting = [*children.get(os.getpid(), ())]
    while waiting:
        number = waiting.pop()
        yield number, seconds[number]
        waiting += children.get(number, ())


def _end(process: subprocess.Popen[bytes]) -> None:
    """Asks the command to end, then kills what is left of it, and waits for all, so that their time is counted."""
    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGINT)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_PATIENCE)
    while left := [number for number, _ in _below()]:
        for number in left:
            with contextlib.suppress(OSError):
                os.kill(number, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(1)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.05)
