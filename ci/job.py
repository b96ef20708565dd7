#!/usr/bin/env python3
"""Runs one row of the device matrix on this machine, with the command that CI uses: `python ci/job.py cuda-2.13`.

`python ci/job.py --all-here` runs all rows that need no other machine, and `--short` runs what `.ci/run` runs: what it
has in each run, and the rows of one turn.
"""

import argparse
import importlib.util
import os
import shlex
import subprocess
import sys

import bootstrap


def main() -> int:
    bootstrap.require_python()
    if not (
        importlib.util.find_spec("tomllib") or importlib.util.find_spec("tomli")
    ):  # Python 3.10: tox installs tomli
        python = bootstrap.python_with_tox()
        os.execv(python, [python, *sys.argv])
    import all_here
    import interpreters
    import matrix
    import packages

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("row", nargs="?", help="the name of a row in ci/matrix.toml")
    parser.add_argument("--list", action="store_true", help="list the rows, a line each")
    parser.add_argument("--all-here", action="store_true", help="run each row that this machine can run, a line each")
    parser.add_argument(
        "--short", action="store_true", help="run the short form of ROW, or of the rows that .ci/run has now"
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--all", action="store_true", help="with --short: all turns")
    which.add_argument("--turn", type=int, choices=range(1, matrix.TURNS + 1), help="with --short: this turn")
    parser.add_argument("--print", action="store_true", help="print the command and run nothing")
    parser.add_argument("--python", metavar="PATH", help="use this Python instead of the row's version")
    options = parser.parse_args()

    os.environ.pop("EXPECTTEST_ACCEPT", None)  # a job compares; people accept, after they have read the diff
    rows = {row.name: row for row in matrix.load()}
    if options.list:
        for row in rows.values():
            print(f"{row.name:<18} {row.holds}\n    python {row.python or 'any'}: {shlex.join(row.command())}")
        return 0
    if options.all_here:
        if options.row:
            parser.error(f"--all-here runs all rows: leave {options.row!r} out, or --all-here")
        return (all_here.print_plan if options.print else all_here.run)(list(rows.values()), options.python)
    if options.short:
        return _run_short(parser, options, rows)
    if options.all or options.turn:
        parser.error("--all and --turn choose what --short runs: add --short")
    if options.row not in rows:
        parser.error(f"unknown row {options.row!r}: known are {', '.join(rows)}" if options.row else "which row?")
    row = rows[options.row]
    if options.print:
        print(shlex.join(row.command()))
        return 0

    python = options.python or interpreters.find_python(row.python)
    if python is None:
        parser.error(f"{row.name} needs Python {row.python}, which this machine does not have; name one with --python")
    packages.install(row)
    os.chdir(bootstrap.ROOT)
    print(shlex.join([python, *row.command()]), file=sys.stderr, flush=True)
    return subprocess.run([python, *row.command()], check=False).returncode


def _run_short(parser, options, rows) -> int:
    import interpreters
    import short_run

    every = list(rows.values())
    python = options.python or interpreters.find_python("") or sys.executable
    if options.row:
        if options.row not in rows or not rows[options.row].short:
            known = ", ".join(row.name for row in every if row.short)
            parser.error(f"{options.row!r} is no row with a short form: these have one: {known}")
        return short_run.run(every, [rows[options.row]], python)
    turn = None if options.all else options.turn or short_run.current_turn()
    return short_run.run(every, short_run.chosen(every, turn), python)


if __name__ == "__main__":
    sys.exit(main())
