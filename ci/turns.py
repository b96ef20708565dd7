"""Which rows `.ci/run` runs by turns, and the commit at which each of them passed last: rows.toml.

    python ci/turns.py            # a line for each row: the commit that ran it last, and how many commits are newer
    python ci/turns.py --check    # lint: warns after 60 commits, and fails after 150

A run outside of CI writes what passed into rows.toml; commit that file. CI itself cannot keep anything.
"""

from __future__ import annotations

import argparse
import datetime as dt
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import matrix

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
FILE = "ci/rows.toml"
#: So many commits after its last run, a row is named as old; and so many fail lint.
WARNS, FAILS = 60, 150


class LastRun(NamedTuple):
    """The last run of a row that passed. `commit`: its id. `date`: YYYY-MM-DD. `line`: the last line of the run."""

    commit: str
    date: str
    line: str


def current(root: Path = ROOT) -> int:
    """The turn of the checked-out commit, from the number of commits before it. Raises OSError without a history."""
    return int(_git(root, "rev-list", "--count", "HEAD")) % matrix.TURNS + 1


def read(root: Path = ROOT) -> dict[str, LastRun]:
    """Row → its last run that passed."""
    file = root / FILE
    tables = tomllib.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    return {name: LastRun(table["commit"], table["date"], table["line"]) for name, table in tables.items()}


def note(row: str, line: str, root: Path = ROOT) -> None:
    """Writes that the row passed at the checked-out commit."""
    today = dt.datetime.now(tz=dt.timezone.utc).date().isoformat()
    found = read(root) | {row: LastRun(_git(root, "rev-parse", "HEAD"), today, line)}
    lines = ["# Written by ci/job.py and .ci/run: the commit at which each row passed last."]
    for name, run in sorted(found.items()):
        quoted = run.line.replace("\\", "\\\\").replace('"', '\\"')
        lines += ["", f'["{name}"]', f'commit = "{run.commit}"', f'date = "{run.date}"', f'line = "{quoted}"']
    file = root / FILE
    temporary = file.with_suffix(".new")
    temporary.write_text("\n".join(lines) + "\n", encoding="utf-8")
    temporary.replace(file)


def age(commit: str, root: Path = ROOT) -> int | None:
    """How many commits are newer than this one; None if the history does not have it."""
    try:
        return int(_git(root, "rev-list", "--count", f"{commit}..HEAD"))
    except OSError:
        return None


def lines(rows: list[matrix.Row], root: Path = ROOT) -> list[str]:
    """A line for each row that has a turn: when it passed last."""
    runs = read(root)
    return [f"  {row.name:<20} turn {row.turn}  {_said(runs.get(row.name), root)}" for row in rows if row.turn]


def _said(run: LastRun | None, root: Path) -> str:
    if run is None:
        return "no run is noted"
    newer = age(run.commit, root)
    ago = "not in this history" if newer is None else f"{newer} commits ago"
    return f"{run.commit[:8]}, {run.date}, {ago}: {run.line}"


def check(rows: list[matrix.Row], root: Path = ROOT) -> int:
    """Prints the rows that nobody ran for long. Returns the exit status: 1 if one is older than FAILS commits."""
    if _git(root, "rev-parse", "--is-shallow-repository") == "true":
        print("the ages of rows are not checked: the history is cut off")
        return 0
    runs, failed = read(root), False
    for row in rows:
        if not row.turn:
            continue
        run = runs.get(row.name)
        newer = age(run.commit, root) if run else None
        if run is not None and newer is None:
            print(f"warning: {row.name}: its age is not known: {_said(run, root)}")
        elif run is None or newer > FAILS:
            failed = True
            what = "no run that passed is noted" if run is None else _said(run, root)
            print(f"{row.name}: {what}. Run it and commit {FILE}: python ci/job.py --short {row.name}")
        elif newer > WARNS:
            print(f"warning: {row.name} passed last {newer} commits ago: python ci/job.py --short {row.name}")
    return int(failed)


def _git(root: Path, *words: str) -> str:
    """What git prints. Raises OSError if there is no git, or no such commit."""
    run = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=False)
    if run.returncode:
        raise OSError(f"git {' '.join(words)}: {run.stderr.strip()}")
    return run.stdout.strip()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="fail if a row is too old")
    options = parser.parse_args()
    rows = matrix.load()
    try:
        if options.check:
            return check(rows)
        print("\n".join(lines(rows)))
    except OSError as error:
        print(f"the ages of rows are not known: {error}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
