#!/usr/bin/env python3
"""Runs one row of the device matrix on this machine, with the command that CI uses: `python ci/job.py cuda-2.13`."""

import argparse
import importlib.util
import os
import shlex
import shutil
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
    import matrix

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("row", nargs="?", help="the name of a row in ci/matrix.toml")
    parser.add_argument("--list", action="store_true", help="list the rows, a line each")
    parser.add_argument("--print", action="store_true", help="print the command and run nothing")
    parser.add_argument("--python", metavar="PATH", help="use this Python instead of the row's version")
    options = parser.parse_args()

    rows = {row.name: row for row in matrix.load()}
    if options.list:
        for row in rows.values():
            print(f"{row.name:<16} {row.runner.name:<12} python {row.python or 'any':<6} {shlex.join(row.command())}")
        return 0
    if options.row not in rows:
        parser.error(f"unknown row {options.row!r}: known are {', '.join(rows)}" if options.row else "which row?")
    row = rows[options.row]
    if options.print:
        print(shlex.join(row.command()))
        return 0

    python = options.python or find_python(row.python)
    if python is None:
        parser.error(f"{row.name} needs Python {row.python}, which this machine does not have; name one with --python")
    os.chdir(bootstrap.ROOT)
    os.environ.pop("EXPECTTEST_ACCEPT", None)  # a job compares; people accept, after they have read the diff
    print(shlex.join([python, *row.command()]), file=sys.stderr, flush=True)
    return subprocess.run([python, *row.command()], check=False).returncode


def find_python(version: str) -> "str | None":
    """Returns a Python of this version ("3.12"; "" for any) on this machine, or None."""
    # The base Python of a venv: a job must not run in the environment that the bootstrap made for tox.
    running = getattr(sys, "_base_executable", sys.executable)
    if version in ("", f"{sys.version_info[0]}.{sys.version_info[1]}"):
        return running
    return shutil.which(f"python{version}")


if __name__ == "__main__":
    sys.exit(main())
