"""`bugs`: the known failures as a page, and whether their reproductions still show them."""

from __future__ import annotations

import argparse
from pathlib import Path

from conformance.cases.lookup import OPS
from conformance.devices.environment import torch_build
from conformance.expectations import known_bugs, known_failures

DESCRIPTION = EXAMPLES = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", nargs="?", metavar="FOLDER", help="known_failures/ of a suite; our own if left out")
    parser.add_argument("--check", action="store_true", help="run the scripts of this torch's bugs instead")


def run(arguments: argparse.Namespace) -> int:
    """1 where a script no longer shows its bug. Raises KnownFailureError for a malformed file."""
    folder = Path(arguments.folder) if arguments.folder else OPS.parent / "known_failures"
    if not folder.is_dir():
        raise known_failures.KnownFailureError(f"there is no folder {folder}: it holds *.toml, see known_failures.py")
    found = known_bugs.bugs(known_failures.load(folder).failures)
    if not arguments.check:
        print("\n".join(known_bugs.markdown(found)))
        return 0
    version = torch_build().version
    gone = 0
    for bug in found:
        if bug.reproduction and bug.applies_to(version):
            there, said = known_bugs.run_reproduction(bug)
            gone += not there
            print(f"{'shows' if there else 'does NOT show'}  {bug.reason}: {said}", flush=True)
    return 1 if gone else 0
