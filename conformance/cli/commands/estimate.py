"""`estimate`: the least time of each kernel and library call of a case on targets, without the device."""

from __future__ import annotations

import argparse
import contextlib
import shlex
import sys
from pathlib import Path

from conformance.atomic_files import check_writable
from conformance.bench.selection import select_cases
from conformance.capture.wrappers.unloaded import without_values
from conformance.cases.case import Case
from conformance.cli.case_options import (
    add_adhoc_options,
    add_what_argument,
    adhoc_options,
    adhoc_words,
    project_targets,
)
from conformance.cli.overlay_options import of_subset
from conformance.compiler.compiler import Compiler, GeneratingError, compiler_here
from conformance.devices import environment
from conformance.devices.speeds import Speeds, speeds_of
from conformance.devices.targets import Target, TargetError
from conformance.errors import first_line
from conformance.estimates import EstimateError, compare, table
from conformance.estimates.model import Estimate, estimate
from conformance.estimates.report import Report
from conformance.facts.dynamo import nothing_compiled
from conformance.generated.capture_texts import origin

_TOP = 20

DESCRIPTION = """\
Estimate where the time of a case goes on a device that need not be here: the
least time of each kernel and library call, by the bytes that it must move and
the operations that it must compute, the longest first. Nothing is run or timed.
The page `docs estimate` says what is not counted.
Exit status 1: of several cases, some could not be estimated."""

EXAMPLES = """\
examples:
  python -m conformance estimate 'sdpa/*causal*' --target cuda_sm80,cuda_sm90
  python -m conformance estimate models.py:layer --input x=8x1024x768:bf16 \\
      --target cuda_sm90 --product H100 --json old.json
  python -m conformance estimate --compare old.json new.json"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_what_argument(parser)
    parser.add_argument(
        "--target",
        action="append",
        default=[],
        metavar="TARGET",
        help="a target, or several with commas; may be repeated; default: the project's conformance_targets",
    )
    parser.add_argument(
        "--product",
        default="",
        metavar="NAME",
        help="the product with this in its name, where a target has several, as H100 of cuda_sm90; default: the first",
    )
    parser.add_argument(
        "--top", type=_count, default=_TOP, metavar="N", help=f"calls that are shown; 0: all; default: {_TOP}"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the estimates to a file, for --compare")
    parser.add_argument(
        "--compare",
        nargs=2,
        type=Path,
        metavar=("OLD", "NEW"),
        help="estimate nothing; compare two files that --json wrote, with another torch for example",
    )
    add_adhoc_options(parser)


def _count(text: str) -> int:
    with contextlib.suppress(ValueError):
        if (number := int(text)) >= 0:
            return number
    raise argparse.ArgumentTypeError(f"{text!r} is no number of calls; write 0 or more")


def run(arguments: argparse.Namespace) -> int:
    """Raises EstimateError, SpeedsError, CaseError, UnknownCaseError, AdhocError, InputError, TargetError,
    PreparationError and GeneratingError.
    """
    if arguments.compare:
        if arguments.what:
            raise EstimateError(f"--compare takes two files and no cases: leave out {arguments.what[0]!r}")
        old, new = (Report.read(path) for path in arguments.compare)
        print(compare.text(old, new, arguments.top))
        return 0
    if not arguments.what:
        raise EstimateError("name the cases to estimate, as in `estimate sdpa`; `python -m conformance list` lists all")
    if arguments.json:
        _refuse_unwritable(arguments.json)
    with contextlib.closing(compiler_here()) as compiler:
        targets = _targets(compiler, arguments)
        cases = of_subset(select_cases(arguments.what, options=adhoc_options(arguments)), arguments.subset)
        report = Report(_about(arguments))
        print(table.legend(), flush=True)
        failed = 0
        for case, target, speeds in ((case, *each) for case in cases for each in targets):
            try:
                made, how = _estimate(compiler, case, target, speeds)
            except (EstimateError, GeneratingError, environment.PreparationError) as error:
                if len(cases) == len(targets) == 1:
                    raise
                failed += 1
                print(f"not estimated: {first_line(error)}", file=sys.stderr)
                continue
            report.estimates.append(made)
            print("\n" + table.text(made, how, arguments.top), flush=True)
        if len(report.estimates) > 1:
            print("\n" + table.totals(report.estimates))
    if arguments.json:
        report.write(arguments.json)
    return int(bool(failed))


def _targets(compiler: Compiler, arguments: argparse.Namespace) -> list[tuple[Target, Speeds]]:
    names = [name for word in arguments.target for name in word.split(",") if name] or list(project_targets())
    if not names:
        raise TargetError(f"no target: add --target {{{','.join(compiler.machine.targets())}}}")
    targets = [compiler.target(name) for name in dict.fromkeys(names)]
    return [(target, speeds_of(target, arguments.product)) for target in targets]


def _estimate(compiler: Compiler, case: Case, target: Target, speeds: Speeds) -> tuple[Estimate, str]:
    """The estimate, and how its capture was made."""
    with without_values(), compiler.generate(case, target, deviceless=True, texts=False) as result:
        if result.capture.error:
            raise EstimateError(
                f"{case.id} for {target.name} has no code to estimate: compiling raises {result.capture.error}"
            )
        if text := nothing_compiled(result.capture):
            raise EstimateError(f"{case.id} for {target.name}: {text}")
        return estimate(result.capture, speeds), origin(result.capture, target)


def _refuse_unwritable(path: Path) -> None:
    try:
        check_writable(path)
    except OSError as error:
        raise EstimateError(f"--json {path}: cannot be written: {error.strerror}: name another file") from error


def _about(arguments: argparse.Namespace) -> dict[str, str]:
    """What an estimate depends on, as text."""
    words = ["python", "-m", "conformance", "estimate", *arguments.what]
    words += [word for value in arguments.target for word in ("--target", value)]
    words += adhoc_words(arguments)
    words += ["--product", arguments.product] if arguments.product else []
    return {
        "torch": environment.torch_build().version,
        "triton": environment.triton_version(),
        "command": shlex.join(words),
    }
