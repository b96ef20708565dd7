"""`merge`: joins runs of several machines, shards or targets into one run."""

from __future__ import annotations

import argparse
from pathlib import Path

import conformance
from conformance.cli.run_options import find_run
from conformance.storage.merged_runs import merge_runs

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
    parser.add_argument("-o", "--output", required=True, type=Path, metavar="DIR", help="a new folder, for the result")


def run(arguments: argparse.Namespace) -> int:
    """Returns 1 if a record that failed was dropped for one that did not. Raises RunError."""
    result = merge_runs([find_run(word) for word in arguments.runs], arguments.output, conformance.__version__)
    for replaced in result.replaced:
        print(replaced)
    for name, count in result.items.items():
        print(f"{name}: {count} items")
    print(f"merged into {arguments.output}: {sum(result.items.values())} items")
    return int(any(replaced.hides_failure for replaced in result.replaced))
