"""Which torch releases have each known bug: runs the scripts of known bugs with several Pythons.

    python benchmarks/bug_releases.py --json releases.json v26/bin/python v28/bin/python    # adds what is not known yet
    python benchmarks/bug_releases.py --json releases.json                                  # prints the table

Each Python needs torch alone. The scripts run on the CPU. The table has what to write as `since` into the entry of a
bug (conformance/known_failures/*.toml): the first release that shows it, if all later ones that were tried do so too.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from packaging.version import Version

from conformance.atomic_files import write_atomically
from conformance.cases.roots import OPS
from conformance.expectations import known_bugs, known_failures

#: What a script did on one release: "shows", or its last line.
SHOWS = "shows"


def since(releases: Mapping[str, str]) -> str:
    """The first release that shows the bug: "2.6 or earlier", "2.9", or "" where none does.

    releases: what each release did, by its version. A release that does not show the bug ends the search downwards.
    """
    ordered = sorted(releases, key=Version)
    showing = [version for version in ordered if releases[version] == SHOWS]
    if not showing:
        return ""
    first = showing[-1]
    for version in reversed(ordered[: ordered.index(first)]):
        if releases[version] != SHOWS:
            return first
        first = version
    return f"{first} or earlier"


def release_of(python: str) -> str:
    asked = [python, "-c", "import torch; print('.'.join(torch.__version__.split('.')[:2]))"]
    return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()


def _run(bugs: Sequence[known_bugs.Bug], python: str, known: dict[str, dict[str, str]], path: Path) -> None:
    version = release_of(python)
    for bug in bugs:
        results = known.setdefault(bug.reason, {})
        if version in results:
            continue
        shows, last_line = known_bugs.run_reproduction(bug, python)
        results[version] = SHOWS if shows else last_line
        print(f"{version}  {results[version][:60]:60}  {bug.reason}", flush=True)
        write_atomically(path, json.dumps(known, indent=1) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pythons", nargs="*", metavar="PYTHON", help="a Python that has a torch release")
    parser.add_argument("--json", type=Path, required=True, help="the results: read, and written after each script")
    parser.add_argument("--unsettled", action="store_true", help="leave out bugs that the earliest known release shows")
    arguments = parser.parse_args()
    known = json.loads(arguments.json.read_text(encoding="utf-8")) if arguments.json.exists() else {}
    failures = known_failures.load(OPS.parent / "known_failures").failures
    bugs = [bug for bug in known_bugs.bugs(failures) if bug.reproduction and "cpu" in bug.devices]
    asked = bugs
    if arguments.unsettled:
        asked = [bug for bug in bugs if not since(known.get(bug.reason, {})).endswith("earlier")]
    for python in arguments.pythons:
        _run(asked, python, known, arguments.json)
    for bug in bugs:
        print(f"{since(known.get(bug.reason, {})) or 'not shown':16}  {bug.reason}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
