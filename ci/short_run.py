"""Runs the short form of the device matrix, and says what it left out: `python ci/job.py --short`, and so `.ci/run`.

All runs of the short form run, even if one fails. Their output goes to the terminal. The last lines have the result of
each run, and the rows that have what was left out.
"""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import bootstrap
from all_here import ended_at_interrupt, result_line
from matrix import Row


def run(rows: list[Row], python: str) -> int:
    """Runs the short form of each row that has one. Returns the exit status: 0; 1 if a run failed; 130 after Ctrl-C."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # otherwise the running tests would go on by themselves
    start, results, failed = time.monotonic(), [], False
    for row in rows:
        for number, command in enumerate(row.short_commands()):
            print(f"=== {shlex.join(command)}", flush=True)
            log = bootstrap.ROOT / ".tox" / f"short-{row.name}-{number}.log"
            began = time.monotonic()
            try:
                status = _run_command([python, *command], log)
            except KeyboardInterrupt:
                return 130
            failed |= bool(status)
            results.append(result_line(" ".join(command[2:]), status, time.monotonic() - began, log))
    print("\n".join([f"=== all in {time.monotonic() - start:.0f} s", *results, "", *left_out(rows)]), flush=True)
    return 1 if failed else 0


def left_out(rows: list[Row]) -> list[str]:
    """Lines that name what the short form does not run, and the row that has it."""
    lines = ["left out, and the job that has it (python ci/job.py JOB; --all-here runs all that can run here):"]
    for row in rows:
        if not row.short:
            lines.append(f"  {row.name:<18} {row.holds}")
        elif [row.args] != row.short:
            ran = " and ".join(repr(shlex.join(arguments)) for arguments in row.short)
            lines.append(f"  {row.name:<18} {row.holds}, without what {ran} selects")
    return lines


def _run_command(command: list[str], log: Path) -> int:
    """Runs a command in a process group of its own. Its output goes to the terminal and into `log`."""
    bootstrap.ROOT.joinpath(".tox").mkdir(exist_ok=True)
    process = subprocess.Popen(
        command,
        cwd=bootstrap.ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    with ended_at_interrupt(process), log.open("wb") as file:
        for line in process.stdout or ():
            file.write(line)
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()
        return process.wait()
