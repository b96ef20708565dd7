"""`explore`: makes programs out of the cases' functions, and keeps those that the compiler gets wrong."""

from __future__ import annotations

import argparse
import contextlib
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from conformance.cases.case import Case
from conformance.cases.roots import STORAGE_ROOTS
from conformance.cli.case_options import checked_target, project_targets
from conformance.devices.targets import TargetError, excused_like
from conformance.errors import ConformanceError
from conformance.storage.locations import KNOWN_FAILURES, storage_folder
from conformance.terminal import heading
from conformance.words import pluralise

if TYPE_CHECKING:
    from conformance.compiler.compiler import Compiler
    from conformance.expectations.known_failure_entry import KnownFailure
    from conformance.fuzzer.search import Search

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


class ExploreError(ConformanceError, ValueError):
    """Options of `explore` that are wrong."""


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
        help="the folder of the search; default: explored/SEED in this folder",
    )


def run(arguments: argparse.Namespace) -> int:
    """Raises ExploreError, TargetError, SearchError and TrialError."""
    from conformance.compiler.compiler import compiler_here
    from conformance.fuzzer.generator_process import Programs
    from conformance.fuzzer.parts import Parts, selected_by
    from conformance.fuzzer.search import Search

    if arguments.minutes <= 0 or arguments.jobs < 1:
        raise ExploreError("--minutes and --jobs must be above 0")
    end = time.monotonic() + 60 * arguments.minutes
    with contextlib.closing(compiler_here()) as compiler:
        compiler.set_up_torch()
        names = _target_names(arguments.target, compiler)
        cases = selected_by(arguments.what)
        known = _known_failures(cases, arguments.overlay.known_failures)
        excused = _excused(known)
        parts = Parts(cases, lambda case: _why_left_out(case, names, excused))
        if not parts.ids:
            reasons = "; ".join(f"{reason}: {count}" for reason, count in parts.left_out.items())
            raise ExploreError(f"no case can be a part of a program: {reasons or 'there is none'}")
        folder = arguments.output or Path("explored", str(arguments.seed))
        targets = [compiler.target(name) for name in names]
        left_out = sum(parts.left_out.values())
        print(heading(f"# programs of {pluralise(len(parts.ids), 'case')} on {', '.join(names)}"))
        if left_out:
            print(f"{left_out} left out: {_counted(parts.left_out)}", flush=True)
        search = Search(
            folder,
            arguments.seed,
            targets,
            _functions_of_bugs(known),
            lambda line: print(line, flush=True),
            cases=len(parts.ids),
            native=[target.name for target in targets if compiler.is_native(target, run=True)],
            tables=arguments.overlay.targets,
        )
        try:
            with Programs(arguments.seed, search.corpus, arguments.what, parts.ids) as programs:
                search.run(programs, end, arguments.jobs)
        finally:
            _report(search)
    return 1 if search.findings else 0


def _target_names(wanted: str | None, compiler: Compiler) -> list[str]:
    names = (wanted or next(iter(project_targets()), "")).split(",")
    known = compiler.machine.targets()
    for name in names:
        if problem := compiler.generation_problem(known[checked_target(name, known)]):
            raise TargetError(f"{name}: {problem}")
    return names


def _known_failures(cases: Sequence[Case], overlays: Sequence[str]) -> list[KnownFailure]:
    """The known failures of the package, of the cases' projects and of overlays that are for the installed torch."""
    import torch

    from conformance.expectations.known_failures import load

    package = [root / KNOWN_FAILURES for root in STORAGE_ROOTS]
    folders = dict.fromkeys([*package, *(storage_folder(case.file, KNOWN_FAILURES) for case in cases)])
    loaded = [*map(load, folders), load(None, overlays=overlays)]
    return [failure for each in loaded for failure in each.failures if failure.applies_to(torch.__version__)]


def _why_left_out(case: Case, names: Sequence[str], excused: Collection[tuple[str, str]]) -> str:
    """A case with a known failure would find it again, in every program that it is a part of."""
    known = any((case.id, target) in excused for name in names for target in (name, excused_like(name)))
    return "with a known failure" if known else ""


def _excused(known: Sequence[KnownFailure]) -> set[tuple[str, str]]:
    """Cases and targets whose numerics or compile are known to fail."""
    return {
        (case, target)
        for failure in known
        for case, check, target in failure.items()
        if check in ("numerics", "compile")
    }


def _functions_of_bugs(known: Sequence[KnownFailure]) -> dict[str, list[str]]:
    """Reason → the functions that the script of the bug calls."""
    from conformance.expectations.known_bugs import bugs
    from conformance.fuzzer.finding import called

    return {bug.reason: called(bug.reproduction) for bug in bugs(known)}


def _report(search: Search) -> None:
    print(f"\n{search.counts}")
    for shows, title in (
        (True, "shown by torch alone"),
        (None, "for a device that is not here"),
        (False, "not shown by torch alone: read them first, each may be a false alarm"),
    ):
        chosen = [each for each in search.findings if each.shows is shows]
        if chosen:
            print(f"\n{pluralise(len(chosen), 'finding')}, {title}:")
        for each in sorted(chosen, key=lambda finding: bool(finding.known)):
            print(f"  {search.folder / each.name}")
            print(f"    {each.title} ({pluralise(len(each.numbers), 'program')}); {each.blamed}")
            if each.known:
                print(f"    perhaps known: {each.known}")


def _counted(reasons: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {reason}" for reason, count in Counter(reasons).most_common(4))
