"""`missed`: what Inductor should do and does not, by its reasons; from a run, without running again."""

from __future__ import annotations

import argparse
import json
import os
from collections import Counter
from pathlib import Path

from conformance.expectations.missed_optimisations import markdown, sections
from conformance.storage.runs import LAST, RunError, existing


DESCRIPTION = EXAMPLES = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", nargs="?", default=LAST, metavar="RUN", help="a run; the last one if left out")
    parser.add_argument("--json", action="store_true", help="for programs")


def run(arguments: argparse.Namespace) -> int:
    """Raises RunError."""
    named = arguments.folder + os.sep if Path(arguments.folder).is_dir() else arguments.folder
    items = list(existing(Path.cwd(), named).items())
    if not any("requirements" in item.checks for item in items):
        raise RunError(f"the run {arguments.folder} looked at no facts: run pytest with the check `requirements`")
    if arguments.json:
        rows = [{"case": item.case, "target": item.target, **missed} for item in items for missed in item.missed]
        print(json.dumps(rows, indent=1))
        return 0
    versions = sorted({item.torch.partition("+")[0] for item in items})
    counted = Counter(item.target for item in items)
    about = f"torch {', '.join(versions)}; {len({item.case for item in items})} cases on {len(counted)} targets."
    print("\n".join(markdown(sections(items), about)))
    return 0
