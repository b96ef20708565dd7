"""`report`: one HTML file about one or several runs, for a browser without a network."""

from __future__ import annotations

import argparse
from pathlib import Path

from conformance import atomic_files
from conformance.bench import BenchError
from conformance.cli.run_options import find_run

DESCRIPTION = """\
Write a report of one or several runs: one HTML file that needs no network. The
runs may come from several machines, torch versions and shards: the report joins
them, and each cell says where its evidence comes from."""

EXAMPLES = """\
examples:
  pytest -n auto; python -m conformance report -o report.html
  python -m conformance report cpu gpu torch215 -o report.html"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "runs", nargs="*", default=["last"], metavar="RUN", help="folders or names of runs; default: the last run"
    )
    parser.add_argument("-o", "--output", metavar="FILE", type=Path, default=Path("report.html"), help="the file")
    parser.add_argument(
        "--bench",
        action="append",
        default=[],
        type=Path,
        metavar="FILE",
        help="add the times that `bench --json FILE` wrote; give it twice to compare two files, the older one first",
    )
    parser.add_argument(
        "--markdown", type=Path, metavar="FILE", help="also write a summary in Markdown, for the page of a CI job"
    )
    parser.add_argument("--title", default="conformance", help="the title of the page")


def run(arguments: argparse.Namespace) -> int:
    """Raises RunError, BenchError and KnownFailureError, and OSError for a file that cannot be written."""
    if len(arguments.bench) > 2:
        raise BenchError(f"--bench compares two files at most, and {len(arguments.bench)} are given")
    from conformance.report.changes import changes_of
    from conformance.report.columns import cells_of
    from conformance.report.further_pages import further_pages
    from conformance.report.markdown_summary import markdown_summary
    from conformance.report.page import page
    from conformance.review.causes import pluralise

    runs = [find_run(word) for word in arguments.runs]
    cells = cells_of(runs)
    changes = changes_of(cells)
    text = page(runs, cells, changes, further_pages(cells, arguments.bench), arguments.title)
    atomic_files.write_atomically(arguments.output, text, survives_power_loss=False)
    if arguments.markdown:
        summary = markdown_summary(cells, changes, arguments.title)
        atomic_files.write_atomically(arguments.markdown, summary, survives_power_loss=False)
    items, count = pluralise(len(cells.cells), "item"), pluralise(len(runs), "run")
    print(f"{arguments.output}: {len(text) / 1e6:.1f} MB, {items} of {count}")
    return 0
