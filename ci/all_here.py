"""Runs the rows of the device matrix that this machine can run, one after the other: `python ci/job.py --all-here`.

A row for another architecture or for a machine with a GPU does not run. A row whose Python is missing runs with the
nearest one that is here, and fails without any. Each row has a line in the report, also one that does not run: the line
says why.
"""

from __future__ import annotations

import contextlib
import os
import platform
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import bootstrap
import interpreters
import packages
from matrix import Row

#: The last line of pytest: "12 passed, 1 failed in 3.45s".
_COUNTS = re.compile(r"\d+ (?:passed|failed|errors?|skipped|deselected|xfailed)\b.* in [0-9.]+s|no tests ran in")
#: What ends a row at Ctrl-C, and the seconds that it has after each signal. Another Ctrl-C sends the next at once.
_SIGNALS = ((signal.SIGINT, 30), (signal.SIGTERM, 10), (signal.SIGKILL, 10))


@dataclass(frozen=True)
class Plan:
    """How a row runs here. `note`: what differs from the row.

    `obstacle`: why it cannot run; "" if it can. `elsewhere`: another machine can, so that it is no failure of this one.
    """

    row: Row
    python: str = ""
    note: str = ""
    obstacle: str = ""
    elsewhere: bool = False

    @property
    def command(self) -> list[str]:
        return [self.python, *self.row.command()]


def plan(row: Row, python: str | None = None) -> Plan:
    """Returns how the row runs on this machine. `python`: the path of a Python for it, instead of the row's version."""
    here = _architecture(platform.machine())
    if not row.runner.hosted:
        needs = f"needs a machine with {row.runner.name}; there, run python ci/job.py {row.name}"
        return Plan(row, obstacle=needs, elsewhere=True)
    if row.runner.machine and _architecture(row.runner.machine) != here:
        needs = f"needs a machine with {row.runner.machine}, and this one has {here}"
        return Plan(row, obstacle=needs, elsewhere=True)
    if python:
        return Plan(row, python, note=f"with {python}")
    if exact := interpreters.find_python(row.python):
        return Plan(row, exact)
    if nearest := interpreters.nearest_python(row.python):
        version, path = nearest
        return Plan(row, path, note=f"with Python {version} instead of {row.python}")
    return Plan(row, obstacle=f"needs Python {row.python}, and this machine has no Python that could replace it")


def print_plan(rows: list[Row], python: str | None = None) -> int:
    """Prints the command of each row, or why it does not run here. Returns the exit status, as run() would."""
    plans = [plan(row, python) for row in rows]
    for each in plans:
        text = f"not run: {each.obstacle}" if each.obstacle else shlex.join(each.command) + in_brackets(each.note)
        print(f"{each.row.name:<16} {text}")
    return 0 if any(not each.obstacle for each in plans) else 1


def run(rows: list[Row], python: str | None = None) -> int:
    """Runs the rows that can run here, and prints a line for each row.

    Returns the exit status: 0; 1 if a row failed or if none could run; 130 after Ctrl-C, which ends the running row.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # otherwise the running row would go on by itself
    start, counts = time.monotonic(), {"ok": 0, "failed": 0, "not run": 0}
    interrupted = False
    for row in rows:
        each = plan(row, python)
        if each.obstacle and not each.elsewhere:
            counts["failed"] += 1
            print(f"{row.name:<16} FAILED: {each.obstacle}", flush=True)
            continue
        obstacle = each.obstacle or ("interrupted" if interrupted else "")
        if obstacle:
            counts["not run"] += 1
            print(f"{row.name:<16} not run: {obstacle}", flush=True)
            continue
        try:
            status, line = _run_row(each)
        except KeyboardInterrupt:
            interrupted = True
            counts["not run"] += 1
            print(f"{row.name:<16} interrupted", flush=True)
            continue
        counts["failed" if status else "ok"] += 1
        print(line, flush=True)
    seconds = time.monotonic() - start
    print(f"{', '.join(f'{count} {word}' for word, count in counts.items())}, in {seconds:.0f} s", flush=True)
    if interrupted:
        return 130
    if not counts["ok"] and not counts["failed"]:
        print("no row can run on this machine; the lines above say why", file=sys.stderr)
        return 1
    return 1 if counts["failed"] else 0


def _run_row(each: Plan) -> tuple[int, str]:
    """Runs a row. Returns its exit status and its line of the report."""
    log = bootstrap.ROOT / ".tox" / f"job-{each.row.name}.log"
    shown = os.path.relpath(log)
    print(f"{each.row.name}: {shlex.join(each.command)}; output in {shown}", file=sys.stderr, flush=True)
    packages.install(each.row)
    start = time.monotonic()
    status = _run_command(each.command, log)
    end = f"; output in {shown}" if status else ""
    return status, f"{result_line(each.row.name, status, time.monotonic() - start, log)}{in_brackets(each.note)}{end}"


def result_line(name: str, status: int, seconds: float, log: Path) -> str:
    """The line of a run in the report: its result, its time, and what pytest counted."""
    result = f"FAILED ({status})" if status else "ok"
    return f"{name:<16} {result:<12} {seconds:5.0f} s  {count_line(log)}".rstrip()


def _run_command(command: list[str], log: Path) -> int:
    """Runs a command in a process group of its own, with its output in `log`. KeyboardInterrupt ends the group."""
    log.parent.mkdir(exist_ok=True)
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=bootstrap.ROOT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        with ended_at_interrupt(process):
            return process.wait()


@contextlib.contextmanager
def ended_at_interrupt(process: subprocess.Popen[bytes]) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        for number, seconds in _SIGNALS:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
                process.wait(seconds)
                break
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # what the row started and left behind
        raise


def count_line(log: Path) -> str:
    """The last line of the log in which pytest counts its results, without its frame; "" if there is none."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return next((line.strip("= ") for line in reversed(lines) if _COUNTS.search(line)), "")


def nothing_passed(log: Path) -> bool:
    """Whether pytest ran and no test passed, nor failed as it should: each was skipped."""
    counts = count_line(log)
    return bool(counts) and not re.search(r"\d+ (?:passed|xfailed)\b", counts)


def in_brackets(note: str) -> str:
    return f"  ({note})" if note else ""


def _architecture(machine: str) -> str:
    """One name for each architecture: macOS says arm64 where Linux says aarch64."""
    return {"arm64": "aarch64", "amd64": "x86_64"}.get(machine.lower(), machine.lower())
