"""`report`: one HTML file about one or several runs, for a browser without a network; and forms for programs."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conformance import atomic_files
from conformance.cli.joined_audits import join_audits
from conformance.cli.run_options import find_baseline, find_run
from conformance.devices.targets import targets
from conformance.distributions import LAB, module_of
from conformance.storage.runs import LAST, RunError
from conformance.words import pluralise

if TYPE_CHECKING:
    from conformance.report.comparison import Side
    from conformance.report.timeline import Entry

DESCRIPTION = """\
Write a report of one or several runs: one HTML file that needs no network. The
runs may come from several machines, torch versions and shards: the report joins
them, and each cell says where its evidence comes from."""

EXAMPLES = """\
examples:
  pytest -n auto; python -m conformance report -o report.html
  python -m conformance report cpu gpu torch215 -o report.html
  python -m conformance report cpu gpu --junit junit.xml --json report.json
  python -m conformance report --compare before after -o compare.html
  pytest --audit --save-run one; pytest --audit --seed 1 --save-run two
  python -m conformance report --audit one two from_the_gpu/audit.json"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "runs", nargs="*", default=[LAST], metavar="RUN", help="folders or names of runs; default: the last run"
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        type=Path,
        help="the HTML file; default: report.html, or none if --markdown, --json or --junit is given",
    )
    parser.add_argument(
        "--bench",
        action="append",
        default=[],
        type=Path,
        metavar="FILE",
        help="add the times that `bench --json FILE` wrote; give it twice to compare two files, the older one first",
    )
    parser.add_argument(
        "--markdown", type=Path, metavar="FILE", help="write a summary in Markdown, for the page of a CI job"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report's data as JSON, for programs")
    parser.add_argument(
        "--junit", type=Path, metavar="FILE", help="write JUnit XML: one entry for each check of an item"
    )
    parser.add_argument(
        "--history", type=Path, metavar="FOLDER", help="add a page of what runs gave over time: see the command history"
    )
    parser.add_argument(
        "--compare",
        nargs=2,
        metavar=("A", "B"),
        help="instead of RUN: what differs between two runs, such as of two configurations, releases or commits; or "
        "between two targets, as RUN:TARGET",
    )
    parser.add_argument("--title", default="conformance", help="the title of the page")
    parser.add_argument(
        "--audit",
        action="store_true",
        help="instead: join what runs with pytest --audit found, or files audit.json of them. An opt-out that one run "
        "needs is needed. Exit status 1: one is idle for all its cases in all runs",
    )


def run(arguments: argparse.Namespace) -> int:
    """Raises RunError, MissingDistributionError, KnownFailureError, and OSError for a file that cannot be written."""
    if arguments.audit:
        return _join_audits(arguments)
    if len(arguments.bench) > 2:
        raise RunError(f"--bench compares two files at most, and {len(arguments.bench)} are given")
    from conformance.report.changes import changes_of
    from conformance.report.columns import cells_of
    from conformance.report.further_pages import further_pages
    from conformance.report.json_report import json_report
    from conformance.report.junit_report import junit_report
    from conformance.report.markdown_summary import markdown_summary
    from conformance.report.page import page
    from conformance.report.timeline import read as read_history
    from conformance.storage.merged_runs import refuse_several_configurations

    if not (arguments.output or arguments.markdown or arguments.json or arguments.junit):
        arguments.output = Path("report.html")
    if (arguments.bench or arguments.history) and not arguments.output:
        raise RunError("--bench and --history add a page to the HTML file: name it with -o FILE")
    past = read_history(arguments.history) if arguments.history else []
    measured = []
    if arguments.bench:
        report_of_bench = module_of(LAB, "bench.report", "--bench").Report
        measured = [report_of_bench.read(file).summary() for file in arguments.bench]
    title = arguments.title
    if arguments.compare:
        return _compare(arguments, measured, past)
    runs = [find_run(word) for word in arguments.runs]
    refuse_several_configurations([run.description() for run in runs])
    cells = cells_of(runs)
    changes = changes_of(cells, runs)
    writers: list[tuple[Path | None, Callable[[], str]]] = [
        (arguments.output, lambda: page(runs, cells, changes, further_pages(cells, measured, past), title)),
        (arguments.markdown, lambda: markdown_summary(runs, cells, changes, title)),
        (arguments.json, lambda: json_report(runs, cells, changes)),
        (arguments.junit, lambda: junit_report(cells, title)),
    ]
    said = f"{pluralise(len(cells.cells), 'item')} of {pluralise(len(runs), 'run')}"
    for file, text_of in writers:
        if file:
            _write(file, text_of(), said)
    return 0


def _write(file: Path, text: str, said: str) -> None:
    atomic_files.write_atomically(file, text, survives_power_loss=False)
    print(f"{file}: {len(text.encode()) / 1e6:.1f} MB, {said}")


def _compare(arguments: argparse.Namespace, measured: Sequence[Mapping[str, Any]], past: Sequence[Entry]) -> int:
    """Raises RunError."""
    from conformance.report.comparison import compare
    from conformance.report.further_pages import further_pages
    from conformance.report.page import page

    if arguments.runs != [LAST]:
        raise RunError("--compare A B names both runs: leave out the others")
    if arguments.markdown or arguments.json or arguments.junit:
        raise RunError("--compare writes HTML alone: leave out --markdown, --json and --junit")
    sides = [_side(word) for word in arguments.compare]
    found = compare(sides)
    sections = further_pages(found.cells, measured, past)
    text = page([side.run for side in sides], found.cells, found.changes, sections, arguments.title, found)
    count = pluralise(found.equal + len(found.rows), "pair")
    _write(arguments.output, text, f"{len(found.rows)} of {count} differ" if found.rows else f"none of {count} differs")
    return 0


def _side(word: str) -> Side:
    """A side of a comparison: RUN, RUN:TARGET, or the PATH[@COMMIT] of a baseline. Raises RunError."""
    from conformance.report.comparison import Side

    run, colon, target = word.rpartition(":")
    if not (colon and target in targets()):
        return Side(find_baseline(word))
    side = Side(find_run(run), target)
    known = side.run.description()["targets"]
    if target not in known:
        raise RunError(f"--compare {word}: that run has no {target}, but {', '.join(known)}")
    return side


def _join_audits(arguments: argparse.Namespace) -> int:
    files = [arguments.output, arguments.markdown, arguments.json, arguments.junit, *arguments.bench]
    if any(files):
        raise RunError("--audit writes no file: leave out -o, --markdown, --json, --junit and --bench")
    return join_audits(arguments.runs)
