"""Runs the short form of the device matrix: `python ci/job.py --short`, and so `.ci/run`.

Each run has the rows without a turn, and those of one turn, see matrix.toml; `--all` runs all turns. All of these run,
even if one fails. Their output goes to the terminal. The last lines have the result of each run, when each row of
another turn passed last, and the rows that have what the short form leaves out.

A row that another machine can run, and this one cannot, is named and does not fail. All else that keeps a row from
showing something fails: no Python for it, a package that cannot be installed, tests of which each is skipped.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import all_here
import bootstrap
import packages
import turns
from all_here import ended_at_interrupt, result_line
from matrix import TURNS, Row


def chosen(rows: list[Row], turn: int | None) -> list[Row]:
    """The rows that have a short form, without a turn or of this one; of all turns for None."""
    return [row for row in rows if row.short and (turn is None or row.turn in (0, turn))]


def current_turn() -> int:
    """The turn of the checked-out commit; 1 without a history."""
    try:
        return turns.current(bootstrap.ROOT)
    except OSError as error:
        print(f"turn 1, because the number of commits is not known: {error}", flush=True)
        return 1


def run(rows: list[Row], selected: list[Row], python: str) -> int:
    """Runs the short form of the selected rows. Returns the exit status: 0; 1 if a run failed; 130 after Ctrl-C.

    `rows`: all, for the last lines. `python`: for rows without `exact_python`; these run with their own version of
    Python if it is here, else with the nearest.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # otherwise the running tests would go on by themselves
    start, results, failed = time.monotonic(), [], False
    for place, row in enumerate(selected):
        own = None if row.exact_python else python
        plan = all_here.plan(row, own) if row.turn else all_here.Plan(row, python)
        if plan.obstacle:
            failed |= not plan.elsewhere
            results.append(f"{row.name}: {'not run' if plan.elsewhere else 'FAILED'}: {plan.obstacle}")
            continue
        packages.install(row)
        passed = []
        for number, command in enumerate(row.short_commands()):
            print(f"=== {row.name}: {shlex.join(command)}{all_here.in_brackets(plan.note)}", flush=True)
            log = bootstrap.ROOT / ".tox" / f"short-{row.name}-{number}.log"
            began = time.monotonic()
            try:
                status = _run_command([plan.python, *command], log, row.minutes)
            except KeyboardInterrupt:
                return 130
            if not status and all_here.nothing_passed(log):
                status = 5  # as of pytest where no test is selected: skipped tests show nothing
            passed.append(not status)
            results.append(result_line(f"{row.name}: {' '.join(command[2:])}", status, time.monotonic() - began, log))
        failed |= not all(passed)
        later = {each.short_tox_env for each in selected[place + 1 :]}
        if os.environ.get("CI") and row.turn and row.short_tox_env not in later:  # gigabytes, for a torch of its own
            shutil.rmtree(bootstrap.ROOT / ".tox" / row.short_tox_env, ignore_errors=True)
        if all(passed) and row.turn and not os.environ.get("CI"):
            turns.note(row.name, all_here.count_line(log) or "ok", bootstrap.ROOT)
    end = [f"=== all in {time.monotonic() - start:.0f} s", *results, "", *_ages(rows, selected), "", *left_out(rows)]
    print("\n".join(end), flush=True)
    return 1 if failed else 0


def _ages(rows: list[Row], selected: list[Row]) -> list[str]:
    others = [row for row in rows if row.turn and row not in selected]
    if not others:
        return ["all turns ran"]
    title = f"of other turns ({TURNS} successive commits have all; --all runs them now), and the last run that passed:"
    try:
        return [title, *turns.lines(others, bootstrap.ROOT)]
    except OSError as error:
        return [title, f"  not known: {error}"]


def left_out(rows: list[Row]) -> list[str]:
    """Lines that name what no turn of the short form runs, and the row that has it."""
    lines = ["left out, and the job that has it (python ci/job.py JOB; --all-here runs all that can run here):"]
    for row in rows:
        if not row.short:
            lines.append(f"  {row.name:<20} {row.holds}")
        elif row.short not in ([row.args], [[]]):
            ran = " and ".join(repr(shlex.join(arguments)) for arguments in row.short)
            lines.append(f"  {row.name:<20} {row.holds}, without what {ran} selects")
    return lines


def _run_command(command: list[str], log: Path, minutes: int) -> int:
    """Runs a command in a process group of its own, and ends it after so many minutes.

    Its output goes to the terminal and into `log`.
    """
    bootstrap.ROOT.joinpath(".tox").mkdir(exist_ok=True)
    process = subprocess.Popen(
        command,
        cwd=bootstrap.ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    limit = threading.Timer(minutes * 60, _end, [process, minutes])
    limit.start()
    try:
        with ended_at_interrupt(process), log.open("wb") as file:
            for line in process.stdout or ():
                file.write(line)
                sys.stdout.buffer.write(line)
                sys.stdout.buffer.flush()
            return process.wait()
    finally:
        limit.cancel()


def _end(process: subprocess.Popen[bytes], minutes: int) -> None:
    print(f"=== ended after {minutes} minutes, the limit of the row in ci/matrix.toml", flush=True)
    os.killpg(process.pid, signal.SIGKILL)
