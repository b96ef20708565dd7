"""`merge`: joins runs of several machines, shards or targets into one run."""

from __future__ import annotations

import argparse
import shlex

import conformance
from conformance.cases.lookup import project_here
from conformance.cli.run_options import find_run
from conformance.storage.merged_runs import merge_runs
from conformance.storage.runs import run_folder

DESCRIPTION = """\
Join runs of several machines, shards or targets into one run, which `review`,
`accept` and `--baseline` read. If two runs have an item, one record is kept:
one that ended, one that was not skipped, the one with more evidence (native,
emulated, compiled, generated), the newer one.
The output names each record that was not kept.
Exit status 1: a record that failed gave way to one that did not."""

EXAMPLES = """\
examples:
  python -m conformance merge shard-1 shard-2 -o merged
  python -m conformance merge artifacts/h200 artifacts/cpu -o all
  python -m conformance review all --list"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "runs", nargs="+", metavar="RUN", help="the folder of a run, or its name below .conformance/runs"
    )
    parser.add_argument(
        "-o",
        "--output",
        required=True,
        metavar="NAME",
        help="the new run: a name below .conformance/runs, as of --save-run, or the path of a folder, such as ./all",
    )


def run(arguments: argparse.Namespace) -> int:
    """Returns 1 if a record that failed was dropped for one that did not. Raises RunError."""
    runs = [find_run(word) for word in arguments.runs]
    folder = run_folder(project_here().root, arguments.output)
    result = merge_runs(runs, folder, conformance.__version__)
    for replaced in result.replaced:
        print(replaced)
    for name, count in result.items.items():
        print(f"{name}: {count} items")
    print(f"merged into {folder}: {sum(result.items.values())} items")
    print(f"next: python -m conformance review {shlex.quote(arguments.output)}")
    return int(any(replaced.hides_failure for replaced in result.replaced))
