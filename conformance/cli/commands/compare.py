"""`compare`: two cases or functions on a target, or one on two targets."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from conformance.cases.adhoc import AdhocOptions, resolve_case
from conformance.cases.case import Case
from conformance.cli.capture_sections import Block, comparable_blocks
from conformance.cli.case_options import EXPLORED, add_adhoc_options, add_part_options, adhoc_options, selected_parts
from conformance.cli.highlighting import highlighted
from conformance.cli.side_by_side import facts_side_by_side, side_by_side
from conformance.devices.targets import DEVICES, Target, TargetError
from conformance.errors import ConformanceError
from conformance.harness.generator import Generator, origin
from conformance.review.diff import hunks
from conformance.terminal import diff_line, heading

_USAGE = "compare two cases (A B --target TARGET), or one case on two targets (CASE TARGET TARGET)"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", nargs="*", metavar="CASE|TARGET", help="cases and functions as for show; targets")
    parser.add_argument("--target", nargs="+", default=[], metavar="TARGET", help="the target, or two")
    add_part_options(parser, ("facts", "why", "graph", "ir", "code"))
    add_adhoc_options(parser)
    parser.add_argument("--side-by-side", action="store_true", help="code beside code instead of a unified diff")
    parser.add_argument("--exit-code", action="store_true", help="exit status 1 where facts or code differ")


class CompareError(ConformanceError, ValueError):
    """Not two things to compare."""


@dataclass(frozen=True)
class _Side:
    """One of the two: its name, where it came from, and the same parts of it as of the other."""

    name: str
    origin: str
    facts: dict[str, str]
    blocks: list[Block]


def run(arguments: argparse.Namespace) -> int:
    """Raises CompareError, AdhocError, InputError, UnknownCaseError, CaseError, TargetError, PreparationError and
    GeneratingError.
    """
    words = [*arguments.words, *(name for word in arguments.target for name in word.split(","))]
    parts, stages = selected_parts(arguments)
    parts = parts or ["facts", "code"]
    with contextlib.closing(Generator()) as generator:
        pair = _two(words, adhoc_options(arguments), generator)
        first, second = (_side(generator, case, target, parts, stages) for case, target in pair)
    return _compare(first, second, parts, columns=arguments.side_by_side, exit_code=arguments.exit_code)


def _side(generator: Generator, case: Case, target: Target, parts: Sequence[str], stages: Sequence[str]) -> _Side:
    from conformance.facts import facts

    explore = any(part in EXPLORED for part in parts)
    with generator.captured(case, target, explore=explore) as captured:
        capture = captured.capture
        blocks = [
            block for part in parts if part != "facts" for block in comparable_blocks(part, capture, target, stages)
        ]
        name = f"{case.id} for {target.name}"
        return _Side(name, origin(capture, target), facts(capture).lines(), blocks)


def _compare(first: _Side, second: _Side, parts: Sequence[str], *, columns: bool, exit_code: bool) -> int:
    """What tells the two apart comes last in a name, so both are named in full."""
    differ = False
    for side in (first, second):
        print(heading(f"# {side.name}: {side.origin}"))
    if "facts" in parts:
        same = first.facts == second.facts
        differ |= not same
        print("\n" + heading("# facts: the same" if same else "# facts differ"))
        if same:
            from conformance.normalize.text import facts_block

            print(highlighted(facts_block(first.facts).rstrip("\n"), "facts"))
        else:
            titles = _apart(first.name, second.name)
            print(facts_side_by_side(first.facts, second.facts, titles))
    titles = list(dict.fromkeys(block.title for side in (first, second) for block in side.blocks))
    for title in titles:
        old, new = ("\n".join(b.text for b in side.blocks if b.title == title) for side in (first, second))
        differ |= old != new
        print("\n" + heading(f"# {title}{': the same' if old == new else ' differs'}"))
        if old == new:
            continue
        if columns:
            print(side_by_side(old.splitlines(), new.splitlines()))
        else:
            print("\n".join(_diff(hunks(old, new), (first.name, second.name))))
    return int(exit_code and differ)


def _apart(first: str, second: str) -> tuple[str, str]:
    """What the two names do not share: case, or target."""
    (case, target), (other, on) = (name.split(" for ") for name in (first, second))
    return (target, on) if case == other else (case, other) if target == on else (first, second)


def _two(words: Sequence[str], own: AdhocOptions, generator: Generator) -> list[tuple[Case, Target]]:
    known = generator.machine.targets()
    targets = [word for word in words if _is_target(word, known)]
    wanted = [generator.target(name) for name in targets]
    names = [word for word in words if word not in targets]
    if (len(names), len(wanted)) not in ((2, 0), (2, 1), (1, 2), (1, 1)):
        raise CompareError(f"{_USAGE}; given are {len(names)} cases and {len(wanted)} targets")
    found = [resolve_case(name, known, own) for name in names]
    if len(found) == 1:
        ((case, ends_in),) = found
        if len(wanted) == 1 and ends_in:
            wanted.insert(0, generator.target(ends_in))
        if len(wanted) != 2:
            raise CompareError(f"{_USAGE}; given are one case and one target")
        return [(case, target) for target in wanted]
    pairs = []
    for case, ends_in in found:
        if not (wanted or ends_in):
            raise TargetError(f"which target? --target {{{','.join(known)}}}")
        pairs.append((case, wanted[0] if wanted else generator.target(ends_in)))
    return pairs


def _is_target(word: str, known: Collection[str]) -> bool:
    """A target's name, also one that does not exist: cpu_avx3."""
    looks = "/" not in word and ":" not in word and word.partition("_")[0] in DEVICES
    return word in known or looks


def _diff(lines: Sequence[str], names: Sequence[str]) -> Iterator[str]:
    """The unified diff under the names of what is compared."""
    for old, new in zip(("--- ", "+++ "), names, strict=True):
        yield diff_line(f"{old}{new}")
    for line in lines[2:]:
        yield diff_line(line)
