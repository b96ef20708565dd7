"""What `bisect` and `blame` ask for: the options, the cases and the target."""

from __future__ import annotations

import argparse

from conformance.bisection.observation import WORK, Question, QuestionError
from conformance.bisection.observer import Observer
from conformance.cases.adhoc import resolve_case
from conformance.cli.case_options import adhoc_options, print_shadowed, project_targets
from conformance.devices.machine import Machine
from conformance.devices.targets import TargetError
from conformance.facts import NAMES


def add_case_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "words", nargs="*", default=[], metavar="CASE", help="case ids, pytest node ids, FILE::id, or ad-hoc functions"
    )
    parser.add_argument(
        "--target", metavar="TARGET", help="the target; default: the first of the project's conformance_targets"
    )


def add_question_options(parser: argparse.ArgumentParser) -> None:
    questions = parser.add_mutually_exclusive_group()
    questions.add_argument("--code", action="store_true", help="ask for the normalised code: the default")
    questions.add_argument(
        "--fact",
        metavar="NAME",
        help="ask for a fact or its part, such as kernels or memory.peak; "
        "compile_work changed if the calls differ by 2 %% or more",
    )
    questions.add_argument("--numerics", action="store_true", help="ask whether the results are right; runs the code")
    questions.add_argument("--requirement", action="store_true", help="ask whether the case's requirements are met")


def question_of(arguments: argparse.Namespace) -> Question:
    """Raises QuestionError for a fact that does not exist."""
    if arguments.fact:
        if arguments.fact.partition(".")[0] not in (*NAMES, WORK):
            raise QuestionError(f"--fact {arguments.fact}: unknown; known are {', '.join((*NAMES, WORK))}")
        return Question("fact", arguments.fact)
    return Question("numerics" if arguments.numerics else "requirement" if arguments.requirement else "code")


def observer_of(arguments: argparse.Namespace, question: Question) -> Observer:
    """The cases in `arguments.words` on the target. Raises QuestionError, TargetError, and what resolve_case raises."""
    if not arguments.words:
        raise QuestionError("name the cases (`python -m conformance list` lists them)")
    known, options, found = Machine.detect().targets(), adhoc_options(arguments), set()
    for word in arguments.words:
        case, target = resolve_case(word, known, options)
        print_shadowed(word, case)
        found.update([target] if target else [])
        if question.kind == "requirement" and not case.require:
            raise QuestionError(f"{case.id} has no requirements: ask for --code, --fact or --numerics")
    names = [arguments.target] if arguments.target else sorted(found) or project_targets()[:1]
    if len(names) != 1:
        raise TargetError(f"no target, or several: add --target {{{','.join(known)}}}")
    if names[0] not in known:
        raise TargetError(f"unknown target {names[0]!r}; known are {', '.join(known)}")
    tables = tuple(arguments.overlay.targets)
    numerics = question.kind == "numerics"
    return Observer(tuple(arguments.words), names[0], options, tables, numerics=numerics, work=question.counts_work)
