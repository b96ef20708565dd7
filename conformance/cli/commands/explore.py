"""`explore`: makes programs out of the cases' functions, and keeps those that the compiler gets wrong."""

from __future__ import annotations

import argparse
import contextlib
from pathlib import Path

from conformance.cli.case_options import checked_target, project_targets

DESCRIPTION = """\
Make programs out of the functions of cases: joined where types and shapes
allow, with what people write between two operators. Compile each for each
target, and compare it with eager. What fails is minimised and kept as a
finding: a script that needs torch alone, and a case. The same seed gives the
same programs. A search that was stopped goes on when you start it again. Exit
status 1: there are findings."""

EXAMPLES = """\
examples:
  python -m conformance explore --minutes 30
  python -m conformance explore --target cpu_avx2,cuda_sm90 --seed 7
  python -m conformance explore conformance/ops/test_scatter.py --minutes 10"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "what",
        nargs="*",
        metavar="WHAT",
        help="files, folders, or patterns of case ids; default: all cases of the package",
    )
    parser.add_argument("--target", metavar="LIST", help="targets, with commas; default: the project's first")
    parser.add_argument(
        "--minutes", type=float, default=10, metavar="MINUTES", help="stop after this time (default: 10)"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="make other programs (default: 0)")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="check N programs at a time (default: 2)")
    parser.add_argument(
        "--output",
        metavar="FOLDER",
        type=Path,
        help="the folder of the search; default: .conformance/explored/SEED",
    )


def run(arguments: argparse.Namespace) -> int:
    """Raises ExploreError, TargetError, and what case_search.search_cases raises."""
    from conformance.compiler.compiler import compiler_here
    from conformance.fuzzer.case_search import ExploreError, search_cases
    from conformance.fuzzer.parts import selected_by

    if arguments.minutes <= 0 or arguments.jobs < 1:
        raise ExploreError("--minutes and --jobs must be above 0")
    names = (arguments.target or next(iter(project_targets()), "")).split(",")
    with contextlib.closing(compiler_here()) as compiler:
        compiler.set_up_torch()
        known = compiler.machine.targets()
        findings = search_cases(
            compiler,
            selected_by(arguments.what),
            arguments.what,
            [checked_target(name, known) for name in names],
            seed=arguments.seed,
            minutes=arguments.minutes,
            jobs=arguments.jobs,
            folder=arguments.output,
            overlay=arguments.overlay,
            say=lambda line: print(line, flush=True),
        )
    return 1 if findings else 0
