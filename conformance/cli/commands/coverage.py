"""`coverage`: which lines of Inductor the cases execute, what no case reaches, and which cases add nothing."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from conformance.cases.lookup import project_here
from conformance.coverage import map_file
from conformance.coverage.coverage_map import CoverageError, CoverageMap, ranges
from conformance.coverage.questions import (
    FileReport,
    explained_lines,
    items_at,
    redundant_cases,
    report,
    unreachable_parts,
)
from conformance.devices.environment import HIDE_DEVICES, torch_build
from conformance.harness.selection.affected_cases import map_for, map_path

DESCRIPTION = """\
Which lines and branches of Inductor's lowerings, decompositions, patterns and
code generators the cases execute when they are captured. `make` records that
in a map, `check` says whether it is still true, and the others read it.
`pytest --affected-by EDIT` runs the cases that an edit of PyTorch can change."""

EXAMPLES = """\
examples:
  python -m conformance coverage make -n 8 --target cuda_sm90,cpu_avx512
  python -m conformance coverage report lowering --functions
  python -m conformance coverage cases torch/_inductor/lowering.py:1234
  git -C ~/pytorch diff | pytest --affected-by -"""

_CAVEAT = """\
Before you drop one: the same lines can generate other code for another dtype,
shape or layout. This says only that no line of Inductor would be lost."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parts = parser.add_subparsers(dest="what", required=True, metavar="{make,check,report,cases,redundant}")

    def part(name: str, text: str, metavar: str, help_: str) -> argparse.ArgumentParser:
        added = parts.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        if metavar:
            added.add_argument("words", nargs="*", default=[], metavar=metavar, help=help_)
        if name != "make":
            added.add_argument("--map", metavar="FILE", help="the map to read; default: the project's for this torch")
        return added

    make = part(
        "make",
        "capture cases without their devices, and keep what each executes",
        "PATH",
        "as for pytest: files of cases",
    )
    check = part(
        "check",
        "say whether a map still fits the cases, and record some items again",
        "PATH",
        "as for pytest: files of cases",
    )
    for recording in (make, check):
        recording.add_argument("-k", metavar="EXPRESSION", help="only cases that match, as for pytest")
        recording.add_argument("--target", metavar="LIST", help="on these targets, as for pytest")
        recording.add_argument("--device", metavar="LIST", help="on targets of these device types, as for pytest")
        recording.add_argument("--quick", action="store_true", help="one case of each function, as for pytest")
        recording.add_argument("-n", type=int, default=1, metavar="N", help="processes at a time; 1 is the default")
    check.add_argument(
        "--sample", type=int, default=40, metavar="N", help="how many items to record and compare; 40 is the default"
    )
    make.add_argument("--missing", action="store_true", help="only what the map lacks, without what no longer exists")
    make.add_argument(
        "-o", "--output", metavar="FILE", help="where to keep the map; default: below .conformance/coverage"
    )
    report = part("report", "say what no case reaches", "PART", "only files with this in their path")
    report.add_argument("--functions", action="store_true", help="also the functions with lines that no case reaches")
    report.add_argument("--markdown", action="store_true", help="print a page in Markdown, with the functions")
    cases = part(
        "cases",
        "list the cases that execute a line or a function",
        "PLACE",
        "torch/FILE:LINE, torch/FILE:FIRST-LAST, torch/FILE:FUNCTION or torch/FILE",
    )
    cases.add_argument("--items", action="store_true", help="list each with its target")
    part("redundant", "list cases whose lines others execute too", "", "")


def run(arguments: argparse.Namespace) -> int:
    """Raises CoverageError."""
    return {"make": _make, "check": _check, "report": _report, "cases": _cases, "redundant": _redundant}[
        arguments.what
    ](arguments)


def _make(arguments: argparse.Namespace) -> int:
    file = str(Path(arguments.output).absolute()) if arguments.output else ""
    whole = _selects_whole_files(arguments)
    of_part = {"whole_files": whole, "whole_suite": whole and not arguments.words}
    return _recording(arguments, {"file": file, "missing": arguments.missing, **of_part})


def _check(arguments: argparse.Namespace) -> int:
    if arguments.sample < 0:
        raise CoverageError(f"--sample {arguments.sample}: give a number of items, 0 or more")
    file = Path(arguments.map) if arguments.map else map_path(project_here().root, torch_build().version)
    of_part = {"check": arguments.sample, "whole_files": _selects_whole_files(arguments)}
    return _recording(arguments, {"file": str(file.absolute()), **of_part})


def _selects_whole_files(arguments: argparse.Namespace) -> bool:
    return not (arguments.k or arguments.quick or any("::" in word for word in arguments.words))


def _recording(arguments: argparse.Namespace, of_part: dict[str, Any]) -> int:
    if arguments.n < 1:
        raise CoverageError(f"-n {arguments.n}: give a number of processes, 1 or more")
    options = {"-k": arguments.k, "--conformance-target": arguments.target, "--conformance-device": arguments.device}
    words = [*arguments.words, *(word for name, value in options.items() if value for word in (name, value))]
    words += ["--conformance-quick"] if arguments.quick else []
    request = {
        "arguments": [*words, "-p", "conformance.plugin"],
        "processes": arguments.n,
        **of_part,
    }
    command = [sys.executable, "-W", "ignore", "-m", "conformance.cli.map_recording.recording", json.dumps(request)]
    with subprocess.Popen(command, env=os.environ | HIDE_DEVICES) as process, _passing_on(signal.SIGTERM, process):
        while True:
            with contextlib.suppress(KeyboardInterrupt):  # it has got the same signal, and keeps what it has
                return process.wait()


@contextlib.contextmanager
def _passing_on(number: signal.Signals, process: subprocess.Popen[bytes]) -> Iterator[None]:
    """A signal to this process goes to the other one, which keeps what it has and ends: then this one ends, too."""
    before = signal.signal(number, lambda *_: process.send_signal(number))
    try:
        yield
    finally:
        signal.signal(number, before)


def _map(arguments: argparse.Namespace) -> CoverageMap:
    if arguments.map:
        return map_file.read(Path(arguments.map))
    return map_for(project_here().root, torch_build().version, None)


def _report(arguments: argparse.Namespace) -> int:
    coverage = _map(arguments)
    if coverage.torch != torch_build().version:
        raise CoverageError(
            f"the map is for {coverage.name}: report it where that torch is installed, not {torch_build().version}"
        )
    files = report(coverage, torch_build().folder, unreachable_parts(), arguments.words)
    if not files:
        raise CoverageError(f"the map has no file with {' or '.join(arguments.words)} in its name")
    print("\n".join(_markdown(coverage, files) if arguments.markdown else _text(coverage, files, arguments.functions)))
    return 0


def _title(coverage: CoverageMap) -> str:
    return f"{coverage.name}: {len(coverage.cases):,} cases on {', '.join(coverage.targets)}"


def _text(coverage: CoverageMap, files: list[FileReport], functions: bool) -> Iterator[str]:
    yield _title(coverage)
    yield "reached / executable lines of functions; in brackets those that are explained as unreachable"
    for file in sorted(files, key=lambda each: each.reached - each.lines):
        if file.problem:
            yield f"{'':14}torch/{file.path}: not judged, {file.problem}"
        elif file.lines or file.explained:
            share = f"{100 * file.reached / file.lines:3.0f} %" if file.lines else "    –"
            explained = f" [{file.explained:,}]" if file.explained else ""
            ways = f"  {100 * file.taken / file.branches:.0f} % of branches" if file.branches else ""
            yield f"{share} {file.reached:6,} / {file.lines:6,}{explained}  torch/{file.path}{ways}"
        if functions:
            yield from (f"        {line}" for line in _functions(file))
    yield _sum(files)


def _sum(files: list[FileReport]) -> str:
    reached, lines = sum(each.reached for each in files), sum(each.lines for each in files)
    explained = sum(each.explained for each in files)
    share = 100 * reached / lines if lines else 0.0
    taken, branches = sum(each.taken for each in files), sum(each.branches for each in files)
    ways = f", and {taken:,} of {branches:,} branches of these, {100 * taken / branches:.0f} %" if branches else ""
    return (
        f"together {reached:,} of {lines:,} lines, {share:.0f} %{ways}; {explained:,} more lines are explained as "
        "unreachable"
    )


def _functions(file: FileReport) -> Iterator[str]:
    """The functions with unreached lines, or with a condition that always or never holds. The most lines first."""
    for each in sorted(file.functions, key=lambda function: -len(function.missed)):
        if (each.missed or each.missed_branches) and not each.reason:
            none = [f"lines {ranges(each.missed)}"] if each.missed else []
            if len(each.missed) == each.lines:
                none = ["never entered"]
            never = [number // 2 for number in each.missed_branches if number % 2]
            always = [number // 2 for number in each.missed_branches if not number % 2]
            none += [f"never true: {ranges(never)}"] if never else []
            none += [f"always true: {ranges(always)}"] if always else []
            yield f"{len(each.missed):4} of {each.lines:4}  {each.name}: {'; '.join(none)}"


def _markdown(coverage: CoverageMap, files: list[FileReport]) -> Iterator[str]:
    yield "# What no case reaches"
    yield ""
    yield f"{_title(coverage)}. {_sum(files)[0].upper()}{_sum(files)[1:]}."
    yield ""
    yield "| file | reached | lines | | branches of these |"
    yield "|---|---|---|---|---|"
    for file in sorted(files, key=lambda each: each.reached - each.lines):
        if file.lines:
            share = 100 * file.reached / file.lines
            ways = f"{100 * file.taken / file.branches:.0f} %" if file.branches else ""
            yield f"| `torch/{file.path}` | {file.reached:,} | {file.lines:,} | {share:.0f} % | {ways} |"
    for file in files:
        if missed := list(_functions(file)):
            yield from ("", f"## torch/{file.path}", "", *(f"- {line.strip()}" for line in missed))
    reasons = dict[str, int]()
    for function in (each for file in files for each in file.functions):
        for reason, lines in explained_lines(function).items():
            reasons[reason] = reasons.get(reason, 0) + lines
    if reasons:
        yield from (
            "",
            "## Explained as unreachable",
            "",
            *(f"- {lines:,} lines: {why}" for why, lines in reasons.items()),
        )


def _cases(arguments: argparse.Namespace) -> int:
    if not arguments.words:
        raise CoverageError("name a place: torch/_inductor/lowering.py:1234 or torch/_inductor/lowering.py:FUNCTION")
    coverage, folder = _map(arguments), torch_build().folder

    def content_of(path: str) -> bytes | None:
        return (folder / path).read_bytes() if (folder / path).is_file() else None

    items = 0
    for word in arguments.words:
        items |= items_at(coverage, word, content_of)
    named = coverage.named(items)
    lines = [f"{case}-{target}" for case, target in named] if arguments.items else list(dict(named))
    print("\n".join(lines), end="\n" if lines else "")
    total = len(coverage.items) if arguments.items else len(coverage.cases)
    print(f"{len(lines):,} of {total:,} {'items' if arguments.items else 'cases'}; {coverage.name}", file=sys.stderr)
    return 0 if lines else 1


def _redundant(arguments: argparse.Namespace) -> int:
    coverage = _map(arguments)
    cases = redundant_cases(coverage)
    print("\n".join(cases), end="\n" if cases else "")
    print(
        f"{len(cases):,} of {len(coverage.cases):,} cases can be left out together; {_title(coverage)}", file=sys.stderr
    )
    print(_CAVEAT, file=sys.stderr)
    return 0
