"""`show`: facts and code of a case on a target, generated now."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable
from typing import Any

from conformance.capture import Capture
from conformance.case import Case, CaseError
from conformance.finding import named
from conformance.generating import GeneratingError, Generator, code_text, facts_text, graph_text, origin, whole_text
from conformance.targets import Target, TargetError
from conformance.terminal import heading, paint


def add(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser("show", help="facts and code of a case on a target, generated now")
    parser.add_argument("case", metavar="CASE", help="an id, a node id of pytest, or FILE::id")
    parser.add_argument("--target", metavar="TARGET", help="may be left out where the node id ends in it")
    part = parser.add_mutually_exclusive_group()
    for name, what in _PARTS.items():
        part.add_argument(f"--{name}", dest="part", action="store_const", const=name, help=what)
    parser.add_argument("--numerics", action="store_true", help="check the results too, where the device is here")
    parser.add_argument("--deviceless", action="store_true", help="generate without the device, even where it is here")
    parser.set_defaults(run=run, part="")


_PARTS = {
    "facts": "the facts alone",
    "code": "the normalised code alone",
    "graph": "the joint graph where there are gradients, else the forward graph",
    "raw": "what Inductor wrote, not normalised",
}


def run(arguments: argparse.Namespace) -> int:
    """Raises UnknownCaseError, CaseError, TargetError, PreparationError and GeneratingError."""
    with contextlib.closing(Generator()) as generator:
        return _show(generator, arguments)


def _show(generator: Generator, arguments: argparse.Namespace) -> int:
    known = generator.machine.targets()
    if arguments.target:
        generator.target(arguments.target)  # a wrong one is said before anything is imported
    case, own = named(arguments.case, known)
    if not (arguments.target or own):
        raise TargetError(f"which target? --target {{{','.join(known)}}}")
    target = generator.target(arguments.target or own)
    native = generator.is_native(target, deviceless=arguments.deviceless, run=arguments.numerics)
    with generator.captured(case, target, deviceless=arguments.deviceless, run=arguments.numerics) as captured:
        print(heading(f"# {case.id} for {target.name}: {origin(captured.capture, target)}"))
        print(_text(captured.capture, target, arguments.part), flush=True)
        if not arguments.numerics:
            return 0
        if not native:
            print(f"\nnumerics    not checked: {target.name} is not here")
            return 0
        return _numerics(case, captured.compiled, target)


def _text(capture: Capture, target: Target, part: str) -> str:
    if part == "facts":
        return facts_text(capture)
    if part == "graph":
        return graph_text(capture, target)
    if part == "code":
        return code_text(capture, target)
    if part == "raw":
        return "\n".join(f"# {module.kind}\n{module.code}" for module in capture.modules)
    return whole_text(capture, target)


def _numerics(case: Case, compiled: Callable[..., Any], target: Target) -> int:
    """Says what the check came to; 1 where it failed. Raises CaseError for a malformed policy, else GeneratingError."""
    from conformance import numerics
    from conformance.tolerance import PolicyError

    try:
        comparison = numerics.check(case, compiled, target.device, target.name)
    except numerics.NumericsError as error:
        print(f"\nnumerics    {paint('wrong', 'red')}\n{error}")
        return 1
    except PolicyError as error:
        raise CaseError(str(error)) from error
    except Exception as error:
        raise GeneratingError(f"{case.id} on {target.name}: {type(error).__name__}: {error}") from error
    worst = ""
    if comparison.worst is not None:
        call, name, measured = comparison.worst
        worst = f"; nearest to the limit: {name}, {call}: {measured.error:.3g} ulp of {measured.allowed:.3g} allowed"
        if measured.exact:
            worst = ", bit for bit"
    compared = len(comparison.lines)
    print(f"\nnumerics    {paint('right', 'green')}: {compared} tensor{'s' * (compared != 1)} compared{worst}")
    for note in comparison.notes:
        print(f"            {note}")
    return 0
