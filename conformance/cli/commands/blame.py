"""`blame`: which functions of another torch change what is generated for a case, without the history between."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator

from conformance.bisection.blamer import Blamed, BlameError, Blamer
from conformance.bisection.sides import INSTALLED, parse_side
from conformance.cli.case_options import add_adhoc_options
from conformance.cli.question_options import add_case_arguments, add_question_options, observer_of, question_of
from conformance.terminal import heading

DESCRIPTION = """\
Find the functions whose new form changes what is generated for a case: between
two installed versions of torch, or a tree that was edited by hand. Each side is
an environment, a folder that holds torch/, PATH@COMMIT, or `installed`.
Functions are exchanged one by one in a process with the old side's torch.
Exit status 1: a change has no function that could be found."""

EXAMPLES = """\
examples:
  python -m conformance blame flip/hflip-224-u8-contiguous --target cuda_sm90 \\
      --old installed --new ~/venvs/torch215
  python -m conformance blame sum/mean-mean --target cpu_avx512 --fact kernels \\
      --old ~/pytorch@v2.13.0 --new ~/pytorch"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s CASE... [--old SIDE] --new SIDE [options]"
    add_case_arguments(parser)
    sides = "a virtual environment, a folder that holds torch/, or PATH@COMMIT"
    parser.add_argument(
        "--old", default=INSTALLED, metavar="SIDE", help=f"the torch before: {sides}; default: {INSTALLED}"
    )
    parser.add_argument("--new", required=True, metavar="SIDE", help="the torch after, in the same way")
    parser.add_argument(
        "--captures",
        type=int,
        default=150,
        metavar="N",
        help="captures for one change at most, and twice as many to leave out functions; default: 150",
    )
    add_question_options(parser)
    add_adhoc_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Returns 1 if for a change no function was found, or perhaps more than the fewest.

    Raises BlameError, and what parse_side raises.
    """
    question = question_of(arguments)
    observer = observer_of(arguments, question)
    old, new = parse_side(arguments.old, "--old"), parse_side(arguments.new, "--new")
    if old.packages == new.packages:
        raise BlameError(f"--old and --new are both {old.name}: name two")
    with contextlib.closing(Blamer(old, new, observer, question, arguments.captures)) as blamer:
        return _blame(blamer)


def _blame(blamer: Blamer) -> int:
    cases, name = blamer.observer.cases, blamer.question.name
    print(heading(f"# {name} of {', '.join(cases)} on {blamer.observer.target}"))
    print(f"old: {blamer.old.name}\nnew: {blamer.new.name}", flush=True)
    blamer.observe_sides()
    print(f"{len(blamer.candidates)} functions and constants that the cases may use differ", flush=True)
    found: list[Blamed] = []
    same = 0
    for case in cases:
        try:
            blamer.observations(case)
        except BlameError as error:
            if len(cases) == 1:
                raise
            print(f"\n{error}")
            same += 1
            continue
        print(f"\n{heading(case)}", flush=True)
        for blamed in blamer.blame(case):
            found.append(blamed)
            print("\n".join(_lines(blamed)), flush=True)
    missing = sum(not each.functions for each in found)
    functions = dict.fromkeys(function.title for each in found for function in each.functions)
    print(f"\n{len(found) - missing} of {len(found)} changes come from these functions; {blamer.captures} captures:")
    print("\n".join(f"  {each}" for each in functions) if functions else "  none")
    return int(bool(missing or any(each.is_cut_off for each in found) or same == len(cases)))


def _lines(blamed: Blamed) -> Iterator[str]:
    yield f"  {blamed.change.title}"
    if blamed.stopped:
        yield f"      not found: {blamed.stopped}"
    for number, function in enumerate(blamed.functions):
        yield f"      {'and ' if number else ''}{function.title}"
    if blamed.is_cut_off:
        yield "      perhaps fewer of them make it: the captures were used up; raise --captures"
    if blamed.placeholders:
        one = len(blamed.placeholders) == 1
        verb = "was a placeholder" if one else "were placeholders"
        yield f"      {', '.join(blamed.placeholders)}, which the binaries of the old torch lack, {verb}"
