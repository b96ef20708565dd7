"""`bench`: eager and compiled in turns on a device that is here; and two such measurements compared."""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import shlex
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conformance.bench import BenchError, compare, markdown, selection, table
from conformance.bench.report import Report
from conformance.capture.deviceless.prepare import prepare
from conformance.cases.case import Case
from conformance.cli.case_options import add_adhoc_options, adhoc_options
from conformance.devices import environment
from conformance.devices.machine import Machine
from conformance.devices.targets import GPUS, Target
from conformance.errors import first_line
from conformance.harness.generator import GeneratingError, Generator

if TYPE_CHECKING:
    from conformance.bench.measure import Bench

_SECONDS = 0.3


DESCRIPTION = EXAMPLES = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "what",
        nargs="*",
        metavar="CASE|PATH",
        help="parts of ids, with * and ?; files; or as for show: module:function",
    )
    parser.add_argument("--device", metavar="DEVICE", help="cpu (the default), cuda or xpu, which has to be here")
    parser.add_argument("--target", metavar="TARGET", help="a target that is here; the widest of the cpu if left out")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="cpu: threads that run (default 1)")
    parser.add_argument(
        "--axis", action="append", default=[], metavar="NAME=V1,V2",
        help="each case with these values for its own, in all combinations: --axis dtype=u8,f32",
    )  # fmt: skip
    parser.add_argument(
        "--min-time", type=_seconds, default=_SECONDS, metavar="SECONDS", help=f"for each function ({_SECONDS})"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="keeps what was measured, for --compare")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="writes the tables into a page")
    add_adhoc_options(parser)
    parser.add_argument("--compare", nargs=2, type=Path, metavar=("OLD", "NEW"), help="instead: two files of --json")


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds < float("inf"):
        raise ValueError(text)
    return seconds


def run(arguments: argparse.Namespace) -> int:
    """1 where a case could not be measured. Raises BenchError, CaseError, UnknownCaseError, AdhocError, InputError,
    TargetError and PreparationError.
    """
    if arguments.compare:
        if arguments.what:
            raise BenchError(f"--compare takes two files and no cases: leave out {arguments.what[0]!r}")
        print(compare.text(*(Report.read(path) for path in arguments.compare)))
        return 0
    if not arguments.what:
        raise BenchError("which cases? name some, as in `bench flip`; `python -m conformance list` names all")
    prepare(GPUS)  # before the generator does: nothing is timed beside a pretended device
    with contextlib.closing(Generator()) as generator:
        machine = generator.machine
        target = selection.target_of(machine, arguments.device, arguments.target, arguments.threads)
        cases = selection.cases_of(arguments.what, arguments.axis, adhoc_options(arguments))
        if arguments.markdown:
            markdown.refuse(arguments.markdown, target.device)
        report = Report(about(machine, target, arguments))
        return _measured(generator, target, cases, report, arguments)


def _measured(
    generator: Generator, target: Target, cases: Sequence[Case], report: Report, arguments: argparse.Namespace
) -> int:
    """Prints and keeps what was measured also where it is interrupted."""
    generator.session.set_up_torch()
    from conformance.bench.measure import Bench, clock_of, threads

    bench = Bench(generator, target, arguments.min_time, clock_of(target))
    failed = interrupted = 0
    with threads(target.threads or 1), _interruptions() as asked_to_stop:
        try:
            for problem in _rows(bench, cases, report, asked_to_stop):
                failed += 1
                print(f"left out: {problem}", file=sys.stderr)
        except KeyboardInterrupt:
            interrupted, report.stopped = 1, len(cases) - len(report.rows) - failed
    if report.rows:
        print(table.text(report), flush=True)
        if arguments.json:
            report.write(arguments.json)
        if arguments.markdown:
            markdown.write(report, arguments.markdown)
    elif interrupted:
        print("interrupted before anything was measured", file=sys.stderr)
    return 130 if interrupted else int(bool(failed))


@contextlib.contextmanager
def _interruptions() -> Iterator[list[int]]:
    """Holds the Ctrl-C that came: a KeyboardInterrupt within a compilation may be swallowed there, as in a callback."""
    came: list[int] = []

    def interrupt(number: int, _frame: Any) -> None:
        came.append(number)
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield came
        return
    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield came
    finally:
        signal.signal(signal.SIGINT, before)


def _rows(bench: Bench, cases: Sequence[Case], report: Report, asked_to_stop: list[int]) -> Iterator[str]:
    """Adds a row to the report for each case; yields what is wrong with one that has none.

    Raises KeyboardInterrupt before a case where one came, and where one comes.
    """
    for number, case in enumerate(cases, 1):
        if asked_to_stop:
            raise KeyboardInterrupt
        if sys.stderr.isatty():
            print(f"\r\x1b[K{number} of {len(cases)}: {case.id}", end="", file=sys.stderr, flush=True)
        try:
            report.rows.append(bench.row(case))
        except GeneratingError as error:
            yield first_line(error)
        finally:
            if sys.stderr.isatty():
                print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def about(machine: Machine, target: Target, arguments: argparse.Namespace) -> dict[str, Any]:
    """What a measurement depends on besides the cases. `load`: of all processes, over the last minute, at the start."""
    gpu = machine.gpus.get(target.device, {"properties": {}})["properties"]
    return {
        "target": target.name,
        "device": target.device,
        "threads": target.threads if target.device == "cpu" else 0,
        "processor": str(gpu.get("name", "")) or _processor(),
        "cores": machine.cores,
        "load": round(os.getloadavg()[0], 1),
        "torch": environment.torch_build().version,
        "triton": environment.triton_version(),
        "python": platform.python_version(),
        "seconds": arguments.min_time,
        "command": command(arguments),
    }


def _processor() -> str:
    """As the kernel names it, else as Python does."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def command(arguments: argparse.Namespace) -> str:
    """What measures this again; without the files that this run wrote, except for the page."""
    words = ["python", "-m", "conformance", "bench", *arguments.what]
    for name in ("device", "target"):
        words += [f"--{name}", getattr(arguments, name)] if getattr(arguments, name) else []
    for name in ("axis", "input", "config"):
        words += [word for value in getattr(arguments, name) for word in (f"--{name}", value)]
    words += [f"--grad={','.join(filter(None, arguments.grad))}"] if arguments.grad else []
    words += ["--dynamic"] if arguments.dynamic else []
    words += ["--threads", str(arguments.threads)] if arguments.threads != 1 else []
    words += ["--min-time", f"{arguments.min_time:g}"] if arguments.min_time != _SECONDS else []
    words += ["--markdown", str(arguments.markdown)] if arguments.markdown else []
    return shlex.join(words)
