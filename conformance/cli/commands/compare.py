"""`compare`: two cases or ad-hoc functions on one target, one on two targets, or what two releases of torch stored."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from conformance.cases.adhoc import AdhocOptions, resolve_case
from conformance.cases.case import Case
from conformance.cases.target_selection import select_targets
from conformance.cli.case_options import (
    add_adhoc_options,
    add_part_options,
    adhoc_options,
    print_shadowed,
    project_targets,
    selected_parts,
)
from conformance.cli.compared_side import ComparedSide, captured_side, side_of_source
from conformance.cli.highlighting import highlighted
from conformance.cli.overlay_options import SOURCE_OPTION
from conformance.cli.side_by_side import facts_side_by_side, side_by_side
from conformance.cli.stored_changes import compare_releases, is_release
from conformance.compiler.compiled_forms import FORMS
from conformance.compiler.compiler import Compiler, compiler_here
from conformance.devices.targets import Target, TargetError, families, targets
from conformance.errors import ConformanceError
from conformance.normalize.text import facts_block
from conformance.review.diff import diff_lines
from conformance.review.kernel_sets import compared_kernels
from conformance.review.kernel_sets import lines as kernel_lines
from conformance.terminal import diff_line, heading
from conformance.words import pluralise

_USAGE = (
    "compare two cases (A B --target TARGET), one case on two targets (CASE TARGET TARGET), "
    "or two releases of torch (2.13 2.15 [PATH …])"
)

DESCRIPTION = """\
Compare what the compiler generates now: for two cases on one target, or for one
case on two targets. Without options for parts: compare facts and code.
Given two releases of torch, compare what is stored for them: facts and code,
grouped by cause. Nothing is compiled then."""

EXAMPLES = """\
examples:
  python -m conformance compare flip/hflip-224-u8-contiguous \\
      flip/vflip-224-u8-contiguous --target cpu_avx512 --side-by-side
  python -m conformance compare flip/hflip-224-u8-contiguous cpu_avx2 cuda_sm90
  python -m conformance compare 2.13 2.15 --device cuda
  python -m conformance compare 2.13 2.15 --markdown > changes.md"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "words",
        nargs="*",
        default=[],
        metavar="CASE|TARGET|RELEASE",
        help="cases (ids, pytest node ids, FILE::id) or ad-hoc functions; targets; or two releases, such as 2.13 2.15, "
        "and the files or folders of cases (default: those of this project, or else of this package)",
    )
    parser.add_argument(
        "--target",
        nargs="+",
        default=[],
        metavar="TARGET",
        help="one target or two; default: conformance_targets of the project's ini file",
    )
    parser.add_argument(
        "--compiled",
        choices=[form for form in FORMS if form != "whole"],
        metavar="FORM",
        help="compare one case on one target, compiled whole, with FORM: `regional` compiles only the blocks that its "
        "modules repeat, `exported` the program of torch.export; says which kernels both have, and other parts where "
        "an option names them",
    )
    add_part_options(parser, ("facts", "why", "graph", "ir", "code"))
    parser.add_argument(
        "--side-by-side", action="store_true", help="print texts beside each other instead of a unified diff"
    )
    parser.add_argument("--exit-code", action="store_true", help="exit with status 1 if a compared part differs")
    parser.add_argument("--device", metavar="LIST", help="of releases: only for these devices, or all")
    parser.add_argument(
        "--markdown", action="store_true", help="of releases: print Markdown, for release notes or a review"
    )
    add_adhoc_options(parser)


class CompareError(ConformanceError, ValueError):
    """The words do not name two things to compare."""


def run(arguments: argparse.Namespace) -> int:
    """Raises CompareError, AdhocError, InputError, UnknownCaseError, CaseError, TargetError, PreparationError,
    GeneratingError, CompiledFormError and SnapshotError.
    """
    if any(map(is_release, arguments.words)):
        return _compare_releases(arguments)
    if arguments.device or arguments.markdown:
        raise CompareError("--device and --markdown compare two releases: compare 2.13 2.15 --device cuda")
    words = [*arguments.words, *(name for word in arguments.target for name in word.split(","))]
    parts, stages = selected_parts(arguments)
    parts = parts or ([] if arguments.compiled else ["facts", "code"])
    if arguments.compiled and len(arguments.torch_source) > 1:
        raise CompareError(f"--compiled compares two forms of one case: give {SOURCE_OPTION} once at most")
    if len(arguments.torch_source) > 2:
        raise CompareError(
            f"{SOURCE_OPTION} is given {len(arguments.torch_source)} times, and compare takes two at most"
        )
    if len(arguments.torch_source) == 2:
        first, second = _of_two_sources(arguments, words, parts, stages)
    else:
        forms = ("whole", arguments.compiled or "whole")
        with contextlib.closing(compiler_here()) as compiler:
            options = adhoc_options(arguments)
            if arguments.compiled:
                _, case, target = _one_case(words, options, compiler, "the two forms of --compiled")
                pair = [(case, target)] * 2
            else:
                pair = _pair(words, options, compiler)
            first, second = (
                captured_side(compiler, case, target, parts, stages, form=form, kernels=bool(arguments.compiled))
                for form, (case, target) in zip(forms, pair, strict=True)
            )
    return _compare(
        first,
        second,
        parts,
        kernels=bool(arguments.compiled),
        beside=arguments.side_by_side,
        exit_code=arguments.exit_code,
    )


def _compare_releases(arguments: argparse.Namespace) -> int:
    old, new, *paths = [*arguments.words, "", ""][: max(len(arguments.words), 2)]
    if not (is_release(old) and is_release(new)):
        raise CompareError(f"{_USAGE}; got {' '.join(arguments.words)}")
    of_cases = {
        "--compiled": arguments.compiled,
        "--side-by-side": arguments.side_by_side,
        SOURCE_OPTION: arguments.torch_source,
        **{f"--{part}": True for part in selected_parts(arguments)[0]},
        "--input": arguments.input,
        "--grad": arguments.grad,
        "--dynamic": arguments.dynamic,
        "--config": arguments.config,
    }
    if given := [option for option, value in of_cases.items() if value]:
        raise CompareError(f"two releases are compared by what is stored, with facts and code: leave out {given[0]}")
    wanted = select_targets(targets().values(), arguments.device, ",".join(arguments.target) or None)
    differ = compare_releases(
        old, new, [Path(word) for word in paths], wanted, arguments.overlay.store, markdown=arguments.markdown
    )
    return int(arguments.exit_code and differ)


def _of_two_sources(
    arguments: argparse.Namespace, words: Sequence[str], parts: Sequence[str], stages: Sequence[str]
) -> tuple[ComparedSide, ComparedSide]:
    """One case on one target, with the Python files of two checkouts or commits."""
    options, sources = adhoc_options(arguments), arguments.torch_source
    with contextlib.closing(compiler_here()) as compiler:
        name, _, target = _one_case(words, options, compiler, f"two {SOURCE_OPTION}")
    request = {
        "case": name,
        "target": target.name,
        "options": dataclasses.asdict(options),
        "parts": list(parts),
        "stages": list(stages),
        "tables": list(arguments.overlay.targets),
    }
    first, second = (side_of_source(source, request) for source in sources)
    if first.name == second.name:
        first, second = (
            dataclasses.replace(side, name=f"{side.name} with {source}")
            for side, source in zip((first, second), sources, strict=True)
        )
    return first, second


def _compare(
    first: ComparedSide, second: ComparedSide, parts: Sequence[str], *, kernels: bool, beside: bool, exit_code: bool
) -> int:
    """Prints what differs. Both are named in full: their names often differ only at the end.

    `kernels`: also prints which kernels both have.
    """
    differ = False
    for side in (first, second):
        print(heading(f"# {side.name}: {side.origin}"))
    if "facts" in parts:
        same = first.facts == second.facts
        differ |= not same
        print("\n" + heading("# facts: the same" if same else "# facts differ"))
        if same:
            print(highlighted(facts_block(first.facts).rstrip("\n"), "facts"))
        else:
            print(facts_side_by_side(first.facts, second.facts, _distinct_names(first.name, second.name)))
    if kernels:
        sets = compared_kernels(first.kernels, second.kernels)
        differ |= sets.differ
        counts = (
            f"{len(sets.same)} the same, {len(sets.first)} only in the first, {len(sets.second)} only in the second"
        )
        print("\n" + heading(f"# kernels: {counts}"))
        for line in kernel_lines(sets):
            print(line)
    for title in dict.fromkeys(block.title for side in (first, second) for block in side.blocks):
        old, new = ("\n".join(b.text for b in side.blocks if b.title == title) for side in (first, second))
        differ |= old != new
        print("\n" + heading(f"# {title}{': the same' if old == new else ' differs'}"))
        if old == new:
            continue
        if beside:
            print(side_by_side(old.splitlines(), new.splitlines()))
        else:
            print("\n".join(_diff(diff_lines(old, new), (first.name, second.name))))
    return int(exit_code and differ)


def _distinct_names(first: str, second: str) -> tuple[str, str]:
    """Returns the parts of the names that differ: the cases, the targets, or both."""
    (case, target), (other_case, other_target) = (name.split(" for ") for name in (first, second))
    if case == other_case:
        return target, other_target
    return (case, other_case) if target == other_target else (first, second)


def _one_case(words: Sequence[str], options: AdhocOptions, compiler: Compiler, what: str) -> tuple[str, Case, Target]:
    """The case as it was typed, the case, and its target. `what`: the options that compare one case with itself."""
    known = compiler.machine.targets()
    names = [word for word in words if not _is_target(word, known)]
    targets = [compiler.target(word) for word in words if _is_target(word, known)]
    if len(names) != 1 or len(targets) > 1:
        raise CompareError(
            f"{what} compare one case on one target: CASE --target TARGET; "
            f"got {pluralise(len(names), 'case')} and {pluralise(len(targets), 'target')}"
        )
    case, own_target = resolve_case(names[0], known, options)
    print_shadowed(names[0], case)
    if targets:
        return names[0], case, targets[0]
    if name := own_target or next(iter(project_targets()), ""):
        return names[0], case, compiler.target(name)
    raise TargetError(f"no target: add --target {{{','.join(known)}}}")


def _pair(words: Sequence[str], options: AdhocOptions, compiler: Compiler) -> list[tuple[Case, Target]]:
    known = compiler.machine.targets()
    target_names = [word for word in words if _is_target(word, known)]
    targets = [compiler.target(name) for name in target_names]
    case_names = [word for word in words if word not in target_names]
    if not targets and len(case_names) == 1 and len(names := project_targets()) == 2:
        targets = [compiler.target(name) for name in names]
    if (len(case_names), len(targets)) not in ((2, 0), (2, 1), (1, 2), (1, 1)):
        raise CompareError(
            f"{_USAGE}; got {pluralise(len(case_names), 'case')} and {pluralise(len(targets), 'target')}"
        )
    cases = [resolve_case(name, known, options) for name in case_names]
    for name, (case, _) in zip(case_names, cases, strict=True):
        print_shadowed(name, case)
    if len(cases) == 1:
        ((case, own_target),) = cases
        if len(targets) == 1 and own_target:
            targets.insert(0, compiler.target(own_target))
        if len(targets) != 2:
            raise CompareError(f"{_USAGE}; got 1 case and 1 target")
        return [(case, target) for target in targets]
    needs_default = not targets and not all(own_target for _, own_target in cases)
    of_project = next(iter(project_targets()), "") if needs_default else ""
    pairs = []
    for case, own_target in cases:
        name = own_target or of_project
        if not (targets or name):
            raise TargetError(f"no target: add --target {{{','.join(known)}}}")
        pairs.append((case, targets[0] if targets else compiler.target(name)))
    return pairs


def _is_target(word: str, known: Collection[str]) -> bool:
    """Whether a word is meant as a target, even if there is no such target: cpu_avx3."""
    return word in known or ("/" not in word and ":" not in word and word.partition("_")[0] in families())


def _diff(lines: Sequence[str], names: Sequence[str]) -> Iterator[str]:
    """Yields the unified diff under the names of the two sides."""
    for old, new in zip(("--- ", "+++ "), names, strict=True):
        yield diff_line(f"{old}{new}")
    for line in lines[2:]:
        yield diff_line(line)
