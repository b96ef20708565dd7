"""`bugs`: the known bugs as a page, and whether their scripts still show them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from conformance.cases.lookup import suite_folder
from conformance.devices.environment import torch_build
from conformance.devices.machine import Machine
from conformance.expectations import known_bugs, known_failures
from conformance.storage.locations import KNOWN_FAILURES
from conformance.terminal import progress

DESCRIPTION = """\
List the known bugs of Inductor as Markdown, each with a script that needs only
torch. With --check: run the scripts of the bugs that this torch has, on a
device that is here. Exit status 1: a script no longer shows its bug."""

EXAMPLES = """\
examples:
  python -m conformance bugs > docs/known-bugs.md
  python -m conformance bugs --check"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "folder",
        nargs="?",
        type=Path,
        metavar="FOLDER",
        help="a folder known_failures/ with *.toml files; default: that of this package",
    )
    parser.add_argument("--check", action="store_true", help="run the scripts instead of listing them")


def run(arguments: argparse.Namespace) -> int:
    """Returns 1 if a script no longer shows its bug. Raises KnownFailureError, SuiteMissingError."""
    folder = arguments.folder or suite_folder().with_name(KNOWN_FAILURES)
    if not folder.is_dir():
        raise known_failures.KnownFailureError(
            f"there is no folder {folder}: name a folder known_failures/ with *.toml files"
        )
    bugs = known_bugs.bugs(known_failures.load(folder).failures)
    if arguments.check:
        return _check(bugs)
    print("\n".join(known_bugs.markdown(bugs)))
    return 0


def _check(bugs: Sequence[known_bugs.Bug]) -> int:
    version = torch_build().version
    asked = [bug for bug in bugs if bug.reproduction and bug.applies_to(version)]
    here = {"cpu", *Machine.detect().gpus}
    checked = [bug for bug in asked if bug.devices & here]
    for bug in asked:
        if bug not in checked:
            print(f"not run  {bug.reason}: it needs a real GPU ({' or '.join(sorted(bug.devices))})")
    gone = 0
    with progress(len(checked)) as show:
        for bug in checked:
            show(bug.reason)
            shows, last_line = known_bugs.run_reproduction(bug)
            gone += not shows
            print(f"{'shows' if shows else 'does NOT show'}  {bug.reason}: {last_line}", flush=True)
    return int(gone > 0)
