"""`bench`: times eager and compiled on a device of this machine, and compares two such measurements."""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conformance.atomic_files import check_writable
from conformance.bench import BenchError, compare, markdown, selection, table
from conformance.bench.report import Report
from conformance.capture.deviceless.prepare import prepare
from conformance.cases.case import Case
from conformance.cli.case_options import add_adhoc_options, add_what_argument, adhoc_options, adhoc_words
from conformance.cli.overlay_options import of_subset
from conformance.compiler.compiler import Compiler, GeneratingError, compiler_here
from conformance.devices import environment
from conformance.devices.machine import Machine, processor_name
from conformance.devices.targets import GPUS, Target
from conformance.errors import first_line
from conformance.terminal import progress, recorded_interruptions

if TYPE_CHECKING:
    from conformance.bench.measure import Bench

_SECONDS = 0.3

DESCRIPTION = """\
Time compiled against eager on a device of this machine, and explain where
compiled is slower. The tables also show the best that the device can do.
Exit status 1: some cases could not be measured."""

EXAMPLES = """\
examples:
  python -m conformance bench flip/hflip --axis dtype=u8,f32 --json before.json
  python -m conformance bench --compare before.json after.json"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_what_argument(parser)
    parser.add_argument(
        "--device", metavar="DEVICE", help="cpu (the default), cuda or xpu; this machine must have the device"
    )
    parser.add_argument(
        "--target", metavar="TARGET", help="a target that this machine runs; default on cpu: its widest vectors"
    )
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="threads on the CPU; default: 1")
    parser.add_argument(
        "--axis",
        action="append",
        default=[],
        metavar="NAME=V1,V2",
        help="measure each case with these values of an axis in place of its own, in all combinations: "
        "--axis dtype=u8,f32",
    )
    parser.add_argument(
        "--min-time",
        type=_positive_seconds,
        default=_SECONDS,
        metavar="SECONDS",
        help=f"seconds for each function; default: {_SECONDS}",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the measurements to a file, for --compare")
    parser.add_argument(
        "--markdown",
        type=Path,
        metavar="FILE",
        help="write the tables into a page, between `<!-- bench DEVICE -->` and `<!-- end of bench DEVICE -->`",
    )
    parser.add_argument(
        "--compare",
        nargs=2,
        type=Path,
        metavar=("OLD", "NEW"),
        help="measure nothing; compare two files that --json wrote",
    )
    add_adhoc_options(parser)


def _positive_seconds(text: str) -> float:
    with contextlib.suppress(ValueError):
        seconds = float(text)
        if 0 < seconds < float("inf"):
            return seconds
    raise argparse.ArgumentTypeError(f"{text!r} is not a positive number of seconds")


def run(arguments: argparse.Namespace) -> int:
    """Returns 1 if a case could not be measured.

    Raises BenchError, CaseError, UnknownCaseError, AdhocError, InputError, TargetError and PreparationError.
    """
    if arguments.compare:
        if arguments.what:
            raise BenchError(f"--compare takes two files and no cases: leave out {arguments.what[0]!r}")
        print(compare.text(*(Report.read(path) for path in arguments.compare)))
        return 0
    if not arguments.what:
        raise BenchError("name the cases to measure, as in `bench flip`; `python -m conformance list` lists all")
    _refuse_unwritable(arguments)
    prepare(GPUS)  # no device is pretended while something is timed; so this comes before the compiler
    with contextlib.closing(compiler_here()) as compiler:
        machine = compiler.machine
        target = selection.select_target(machine, arguments.device, arguments.target, arguments.threads)
        selected = selection.select_cases(arguments.what, arguments.axis, adhoc_options(arguments))
        cases = of_subset(selected, arguments.subset)
        if arguments.markdown:
            markdown.check_markers(arguments.markdown, target.device)
        report = Report(about(machine, target, arguments))
        return _measure(compiler, target, cases, report, arguments)


def _refuse_unwritable(arguments: argparse.Namespace) -> None:
    """Raises BenchError for a file that cannot be written, before hours of measuring."""
    for option in ("json", "markdown"):
        if path := getattr(arguments, option):
            try:
                check_writable(path)
            except OSError as error:
                raise BenchError(
                    f"--{option} {path}: cannot be written: {error.strerror}; nothing was measured: name another file"
                ) from error


def _measure(
    compiler: Compiler, target: Target, cases: Sequence[Case], report: Report, arguments: argparse.Namespace
) -> int:
    """Prints and writes the measurements; also those made before an interruption."""
    compiler.set_up_torch()
    from conformance.bench.measure import Bench, clock_for, threads

    bench = Bench(compiler, target, arguments.min_time, clock_for(target))
    failed = 0
    interrupted = False
    with threads(target.threads or 1), recorded_interruptions() as interruptions:
        try:
            for problem in _measure_each(bench, cases, report, interruptions):
                failed += 1
                print(f"not measured: {problem}", file=sys.stderr)
        except KeyboardInterrupt:
            interrupted = True
            report.stopped = len(cases) - len(report.rows) - failed
    if report.rows:
        print(table.text(report), flush=True)
        if arguments.json:
            report.write(arguments.json)
        if arguments.markdown:
            markdown.write(report, arguments.markdown)
    elif interrupted:
        print("interrupted before anything was measured", file=sys.stderr)
    return 130 if interrupted else int(bool(failed))


def _measure_each(bench: Bench, cases: Sequence[Case], report: Report, interruptions: Sequence[int]) -> Iterator[str]:
    """Adds a row to the report for each case. Yields a message for a case that cannot be measured.

    Raises KeyboardInterrupt after a Ctrl-C, at the latest before the next case.
    """
    with progress(len(cases)) as show:
        for case in cases:
            if interruptions:
                raise KeyboardInterrupt
            show(case.id)
            try:
                report.rows.append(bench.measure(case))
            except GeneratingError as error:
                yield first_line(error)


def about(machine: Machine, target: Target, arguments: argparse.Namespace) -> dict[str, Any]:
    """Returns what a measurement depends on besides the cases.

    `load`: of all processes, over the last minute before the run.
    """
    gpu = machine.gpus.get(target.device, {"properties": {}})["properties"]
    return {
        "target": target.name,
        "device": target.device,
        "threads": target.threads if target.device == "cpu" else 0,
        "processor": str(gpu.get("name", "")) or processor_name(),
        "cores": machine.cores,
        "load": round(os.getloadavg()[0], 1),
        "torch": environment.torch_build().version,
        "triton": environment.triton_version(),
        "python": platform.python_version(),
        "seconds": arguments.min_time,
        "command": command(arguments),
    }


def command(arguments: argparse.Namespace) -> str:
    """Returns the command that repeats the measurement; without the --json file, but with the page."""
    words = ["python", "-m", "conformance", "bench", *arguments.what]
    for name in ("device", "target"):
        words += [f"--{name}", getattr(arguments, name)] if getattr(arguments, name) else []
    words += [word for value in arguments.axis for word in ("--axis", value)]
    words += adhoc_words(arguments)
    words += ["--threads", str(arguments.threads)] if arguments.threads != 1 else []
    words += ["--min-time", f"{arguments.min_time:g}"] if arguments.min_time != _SECONDS else []
    words += ["--markdown", str(arguments.markdown)] if arguments.markdown else []
    return shlex.join(words)
