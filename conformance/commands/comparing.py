"""`compare`: two cases on a target, or a case on two targets."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Collection, Iterator, Sequence

from conformance.case import Case
from conformance.compare import difference
from conformance.finding import named
from conformance.generating import Generator, origin, whole_text
from conformance.targets import DEVICES, Target, TargetError
from conformance.terminal import diff_line, heading

_USAGE = "compare two cases (A B --target TARGET), or one case on two targets (CASE TARGET TARGET)"


def add(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser("compare", help=_USAGE.removeprefix("compare "))
    parser.add_argument("words", nargs="+", metavar="CASE|TARGET", help="cases as for show; targets")
    parser.add_argument("--target", nargs="+", default=[], metavar="TARGET", help="the target, or two")
    parser.add_argument("--exit-code", action="store_true", help="exit status 1 where facts or code differ")
    parser.set_defaults(run=run)


class CompareError(ValueError):
    """Not two things to compare."""


def run(arguments: argparse.Namespace) -> int:
    """Raises CompareError, UnknownCaseError, CaseError, TargetError, PreparationError and GeneratingError."""
    words = [*arguments.words, *(name for word in arguments.target for name in word.split(","))]
    with contextlib.closing(Generator()) as generator:
        return _compare(generator, words, exit_code=arguments.exit_code)


def _compare(generator: Generator, words: Sequence[str], *, exit_code: bool) -> int:
    first, second = _two(words, generator)
    texts, origins = [], []
    for case, target in (first, second):
        with generator.captured(case, target) as captured:
            texts.append(whole_text(captured.capture, target))
            origins.append(origin(captured.capture, target))
    names = _names(first, second)
    for name, where in zip(names, origins, strict=True):
        print(heading(f"# {name}: {where}"))
    found = difference(*texts)
    print()
    if found is None:
        print("facts unchanged\ncode unchanged")
        return 0
    print("\n".join(["facts differ:", *found.facts] if found.facts else ["facts unchanged"]))
    print("\n" + "\n".join(_diff(found.diff, names)) if found.diff else "code unchanged")
    return int(exit_code)


def _two(words: Sequence[str], generator: Generator) -> list[tuple[Case, Target]]:
    known = generator.machine.targets()
    targets = [word for word in words if _is_target(word, known)]
    wanted = [generator.target(name) for name in targets]
    names = [word for word in words if word not in targets]
    if (len(names), len(wanted)) not in ((2, 0), (2, 1), (1, 2), (1, 1)):
        raise CompareError(f"{_USAGE}; given are {len(names)} cases and {len(wanted)} targets")
    found = [named(name, known) for name in names]
    if len(found) == 1:
        ((case, own),) = found
        if len(wanted) == 1 and own:
            wanted.insert(0, generator.target(own))
        if len(wanted) != 2:
            raise CompareError(f"{_USAGE}; given are one case and one target")
        return [(case, target) for target in wanted]
    pairs = []
    for case, own in found:
        if not (wanted or own):
            raise TargetError(f"which target? --target {{{','.join(known)}}}")
        pairs.append((case, wanted[0] if wanted else generator.target(own)))
    return pairs


def _is_target(word: str, known: Collection[str]) -> bool:
    """A target's name, also one that does not exist: cpu_avx3."""
    looks = "/" not in word and "::" not in word and word.partition("_")[0] in DEVICES
    return word in known or looks


def _names(first: tuple[Case, Target], second: tuple[Case, Target]) -> list[str]:
    """What tells the two apart comes last in the header of a diff, so both are named in full."""
    return [f"{case.id} for {target.name}" for case, target in (first, second)]


def _diff(lines: Sequence[str], names: Sequence[str]) -> Iterator[str]:
    """The unified diff under the names of what is compared."""
    for old, new in zip(("--- ", "+++ "), names, strict=True):
        yield diff_line(f"{old}{new}")
    for line in lines[2:]:
        yield diff_line(line)
