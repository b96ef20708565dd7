"""`minimise`: the smallest program that fails as a case does, and the part of the compiler that makes it wrong."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from conformance.cases.adhoc import resolve_case
from conformance.cli.case_options import (
    add_adhoc_options,
    adhoc_options,
    checked_target,
    print_shadowed,
    project_targets,
)
from conformance.devices.targets import Target
from conformance.errors import ConformanceError
from conformance.numerics.problem import OF_THE_DECLARATION
from conformance.sources.source_in_use import source_in_use
from conformance.terminal import heading

if TYPE_CHECKING:
    from conformance.minimisation.failure import Failure
    from conformance.minimisation.minimiser import Minimised
    from conformance.minimisation.program import Program
    from conformance.minimisation.trial import Call

DESCRIPTION = """\
Find the smallest program that fails in the same way as a case whose numerics or
compile fail: the same kind of tensor, the same rule, wrong elements of the same
kind. Also say which decomposition, pass or lowering makes it wrong. Writes a
script that needs torch alone, and runs it. In place of a case you can name a
script that calls torch.compile. Exit status 1: nothing fails."""

EXAMPLES = """\
examples:
  python -m conformance minimise activation/shrink --target cpu_avx2
  python -m conformance minimise activation/shrink --target cuda_sm90 --call nan
  python -m conformance minimise bug.py --target cpu_avx512 --output smallest.py"""


class MinimiseError(ConformanceError, ValueError):
    """Options of `minimise` that are wrong, or a case that does not fail."""


class NothingFailsError(ConformanceError, RuntimeError):
    """The case does not fail, or not in the call that --call names."""

    status = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "word", metavar="CASE", help="a case id, a pytest node id, FILE::id, an ad-hoc function, or a script SCRIPT.py"
    )
    parser.add_argument(
        "--target",
        metavar="TARGET",
        help="the target; default: the one of the pytest node id, else the project's first",
    )
    parser.add_argument(
        "--call", default="", metavar="CALL", help="the call of the check that fails: first, nan, ties, …; default: any"
    )
    parser.add_argument(
        "--output", metavar="FILE", help="the script to write; default: minimised_CASE.py in this folder"
    )
    parser.add_argument(
        "--trials", type=int, default=120, metavar="N", help="compile at most N smaller programs (default: 120)"
    )
    parser.add_argument(
        "--time-limit", type=float, default=180, metavar="SECONDS", help="of one compile; then it hangs (default: 180)"
    )
    parser.add_argument("--no-part", action="store_true", help="do not look for the part of the compiler")
    add_adhoc_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Raises MinimiseError, NothingFailsError, NotFailingError, NotWritableError, TrialError and ScriptError."""
    from conformance.compiler.compiler import compiler_here

    if arguments.trials < 1 or arguments.time_limit <= 0:
        raise MinimiseError("--trials and --time-limit must be above 0")
    output = Path(arguments.output) if arguments.output else _default_output(arguments.word)
    if output.exists() and not arguments.output:
        raise MinimiseError(f"{output} exists already: name another file with --output")
    if output.suffix != ".py":
        raise MinimiseError(f"--output {output}: the name of the script must end with .py")
    with contextlib.closing(compiler_here()) as compiler:
        compiler.set_up_torch()
        is_script = arguments.word.endswith(".py") and "::" not in arguments.word
        search = _of_script if is_script else _of_case
        return search(arguments, compiler.target, set(compiler.machine.targets()), output)


def _of_script(arguments: argparse.Namespace, target_of: Callable[[str], Target], known: set[str], output: Path) -> int:
    from conformance.minimisation.captured_programs import calls_of_script, programs_of_script

    script = Path(arguments.word)
    if not script.is_file():
        raise MinimiseError(f"there is no file {script}")
    if arguments.call:
        raise MinimiseError("--call is for cases: a script has its own values")
    target = target_of(_target_name(arguments.target, "", known))
    programs = programs_of_script(script)
    return _minimise(arguments, target, programs, calls_of_script(programs), None, output)


def _of_case(arguments: argparse.Namespace, target_of: Callable[[str], Target], known: set[str], output: Path) -> int:
    from conformance.minimisation.captured_programs import programs_of_case
    from conformance.minimisation.failure import Failure
    from conformance.minimisation.trial import Call, Trials

    options = adhoc_options(arguments)
    case, named = resolve_case(arguments.word, known, options)
    case = case.form_that_runs
    print_shadowed(arguments.word, case)
    target = target_of(_target_name(arguments.target, named, known))
    tables = tuple(arguments.overlay.targets)
    print(heading(f"# {case.id} on {target.name}"), flush=True)
    with Trials(target.name, Call(), tables=tables, time_limit=arguments.time_limit) as trials:
        outcome = trials.check_case(arguments.word, dataclasses.asdict(options))
    if outcome.error:
        raise NothingFailsError(f"the check of {case.id} ended early: {outcome.error}")
    found = [each for each in outcome.problems if arguments.call in ("", each.call)]
    if not found:
        others = ", ".join(dict.fromkeys(each.call for each in outcome.problems))
        where = f"its call {arguments.call!r}" if arguments.call else "it"
        more = f"; these fail: {others}" if others else ""
        raise NothingFailsError(f"{case.id} does not fail on {target.name} in {where}{more}".replace(" in it", ""))
    problem = next((each for each in found if each.rule != "recompiles"), found[0])
    if problem.rule == "recompiles":
        raise MinimiseError(f"{case.id} only compiles again: a program that is called once cannot show that")
    if problem.rule in OF_THE_DECLARATION:
        raise MinimiseError(f"{case.id} needs another declaration, and no smaller program: {problem.text}")
    print(f"it fails in {len(found)} ways; the first: {problem.name}", flush=True)
    programs, call = programs_of_case(case, target.name, target.device, problem.call)
    return _minimise(arguments, target, programs, [call], Failure.of(problem), output)


def _minimise(
    arguments: argparse.Namespace,
    target: Target,
    programs: list[Program],
    calls: list[Call],
    wanted: Failure | None,
    output: Path,
) -> int:
    from conformance.minimisation.minimiser import Minimiser
    from conformance.minimisation.trial import Trials

    tables = tuple(arguments.overlay.targets)
    with Trials(target.name, calls[0], tables=tables, time_limit=arguments.time_limit) as trials:
        minimiser = Minimiser(trials, _say, arguments.trials)
        program, problem = minimiser.failing(programs, wanted, calls)
        try:
            minimised = minimiser.minimise(program, problem)
            part = [] if arguments.no_part else minimiser.part(minimised).lines()
        finally:
            print(f"{trials.count} compiles", flush=True)
    return _report(arguments, target, minimised, part, output, calls[0])


def _say(line: str) -> None:
    print(f"  {line}", flush=True)


def _report(
    arguments: argparse.Namespace, target: Target, minimised: Minimised, part: list[str], output: Path, call: Call
) -> int:
    from conformance.minimisation.script import write

    options = target.simd_options
    options |= {name: value for name, value in call.config.items() if not name.startswith("dynamo.")}
    source = source_in_use()
    of_source = f", with torch's Python files of {source.name}" if source else ""
    title = f"{arguments.word} on {target.name}: {minimised.failure}{of_source}"
    written = write(output, minimised, title, device=target.device, options=options)
    print()
    print(minimised.program.text.rstrip())
    print()
    print(f"{minimised.before} steps → {len(minimised.program.steps)}: {minimised.problem.name}")
    for line in part:
        print(line)
    state = {True: "fails", False: "does NOT fail", None: "was not run"}[written.shows]
    torch = "that torch" if source else "torch alone"
    print(f"script: {written.file}, which {state} with {torch}: {written.last}")
    if source:
        print(f"run it with: PYTHONPATH={shlex.quote(source.folder)} python {shlex.quote(str(written.file))}")
    return 0 if written.shows is not False else 1


def _default_output(word: str) -> Path:
    return Path(
        f"minimised_{re.sub(r'[^A-Za-z0-9]+', '_', word.removesuffix('.py').rpartition('::')[2]).strip('_')}.py"
    )


def _target_name(wanted: str | None, named: str, known: set[str]) -> str:
    return checked_target(wanted or named or next(iter(project_targets()), ""), known)
