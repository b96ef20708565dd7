"""`show`: what the compiler generates now for a case or an ad-hoc function on a target."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Collection, Iterator

from conformance import facts
from conformance.capture.offline.compiler import refuse_unknown_stage
from conformance.cases.adhoc import AdhocOptions, resolve_case
from conformance.cases.case import Case
from conformance.cli.capture_sections import Block, blocks, triton_stage
from conformance.cli.case_options import (
    COMPILING,
    EXPLORED,
    GROWTH,
    PARTS,
    SAME_BITS,
    SIZES,
    WORK,
    add_adhoc_options,
    add_part_options,
    adhoc_options,
    print_shadowed,
    project_targets,
    selected_parts,
)
from conformance.cli.highlighting import highlighted
from conformance.cli.kernel_sections import kernel_sections
from conformance.cli.numerics_verdict import numerics_verdict
from conformance.compiler.compile_growth import counted, growth
from conformance.compiler.compiler import Compiler, compiler_here
from conformance.compiler.large_sizes import size_choices
from conformance.compiler.same_bits import verdicts
from conformance.devices.targets import Target, TargetError
from conformance.distributions import PAGE, module_of
from conformance.errors import ConformanceError
from conformance.generated.capture_texts import origin
from conformance.terminal import heading

DESCRIPTION = """\
Compile a case or an ad-hoc function for a target, and print what the compiler
made of it. Without options for parts: print the text that a snapshot stores.
Exit status 1: the case does not compile, or its numerics are wrong."""

EXAMPLES = """\
examples:
  python -m conformance show flip/hflip-224-u8-contiguous --target cpu_avx2
  python -m conformance show 'lambda x: x.flip(-1)' --input x=3x224x224:u8 \\
      --target cuda_sm90 --facts --stage ptx
  python -m conformance show --html flip/hflip-224-u8-contiguous \\
      --target cpu_avx2,cuda_sm90,xpu_pvc"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "words",
        nargs="*",
        default=[],
        metavar="CASE",
        help="a case id, a pytest node id, FILE::id, or an ad-hoc function; ids of this project come first",
    )
    parser.add_argument(
        "--target",
        metavar="TARGET",
        help="the target; default: that of the node id, or the first of the project's conformance_targets",
    )
    add_part_options(parser, list(PARTS))
    parser.add_argument(
        "--kernels",
        nargs="?",
        const="",
        metavar="NAME",
        help="print each kernel in short: its digest, and which cases of operators have the same kernel, or the same "
        "but for sizes; with NAME, print the code of the kernels that have it in their name",
    )
    parser.add_argument(
        "--stage",
        action="append",
        dest="triton_stages",
        default=[],
        metavar="STAGE",
        help="print this stage of each Triton kernel (compiled without the device): ttir, ttgir, llir, ptx, sass, spv",
    )
    parser.add_argument(
        "--html",
        action="store_true",
        help="write an HTML file in place of text: source, graph, IR and kernels side by side, linked by line, with "
        "Inductor's reasons; --target may name several targets, separated by commas",
    )
    parser.add_argument("--numerics", action="store_true", help="also check the results, on the device or emulated")
    parser.add_argument(
        "--deviceless", action="store_true", help="generate without the device, even if this machine has it"
    )
    add_adhoc_options(parser)


class ShowError(ConformanceError, ValueError):
    """No case to show, or several."""


def run(arguments: argparse.Namespace) -> int:
    """Raises ShowError, AdhocError, InputError, UnknownCaseError, CaseError, TargetError, PreparationError,
    GeneratingError and NoKernelError.
    """
    words = arguments.words
    if len(words) != 1:
        got = f"got {' and '.join(map(repr, words))}" if words else "got none"
        raise ShowError(f"name one case or function: {got} (`python -m conformance list` lists the cases)")
    with contextlib.closing(compiler_here()) as compiler:
        return _show(compiler, words[0], adhoc_options(arguments), arguments)


def _show(compiler: Compiler, word: str, options: AdhocOptions, arguments: argparse.Namespace) -> int:
    known = compiler.machine.targets()
    if arguments.html:
        return _write_page(compiler, word, options, arguments)
    if arguments.target:
        compiler.target(arguments.target)  # refuses an unknown target before anything is imported
    case, target_name = resolve_case(word, known, options)
    print_shadowed(word, case)
    target = compiler.target(arguments.target or target_name or _project_target(known))
    parts, stages = selected_parts(arguments)
    for stage in arguments.triton_stages:
        refuse_unknown_stage(stage, target.family)
    if not (parts or arguments.triton_stages or arguments.kernels is not None):
        parts = [""]
    compares_bits = SAME_BITS in parts and compiler.is_native(target, deviceless=arguments.deviceless, run=True)
    how = {"deviceless": arguments.deviceless, "run": arguments.numerics or compares_bits}
    native = compiler.is_native(target, **how)
    explore = any(part in EXPLORED for part in parts)
    with compiler.generate(case, target, explore=explore, **how) as result:
        printed = [part for part in parts if part not in COMPILING]
        shown = [block for part in printed for block in blocks(part, result.capture, target, stages)]
        shown += _compiled_blocks(compiler, case, target, parts, deviceless=arguments.deviceless)
        if arguments.kernels is not None:
            shown += kernel_sections(arguments.kernels, result.capture, target)
        for stage in arguments.triton_stages:
            shown += triton_stage(stage, result.capture, target)
        print(heading(f"# {case.id} for {target.name}: {origin(result.capture, target)}"))
        for number, block in enumerate(shown):
            if len(shown) > 1 or arguments.triton_stages or arguments.kernels is not None:
                print(("\n" if number else "") + heading(f"# {block.title}"))
            print(highlighted(block.text, block.language), flush=True)
        if not arguments.numerics:
            return 0
        verdict = numerics_verdict(compiler, case, result, target, native=native)
        print("", *verdict.lines(), sep="\n")
        return int(verdict.word == "wrong")


def _compiled_blocks(
    compiler: Compiler, case: Case, target: Target, parts: Collection[str], *, deviceless: bool
) -> Iterator[Block]:
    """The parts that compile the case again."""
    if SIZES in parts:
        yield Block("sizes", "\n".join(size_choices(compiler.capture, case, target)) or "(no input has a size)")
    if SAME_BITS in parts:
        found = verdicts(compiler, case, target, deviceless=deviceless)
        yield Block("same bits", "\n".join(map(str, found)))
    if WORK in parts:
        yield Block("compile work", facts.extract(counted(compiler.capture, case, target)).text("compile_work"))
    if GROWTH in parts:
        yield Block("growth", "\n".join(growth(compiler.capture, case, target).lines()))


def _write_page(compiler: Compiler, word: str, options: AdhocOptions, arguments: argparse.Namespace) -> int:
    others = [arguments.parts, arguments.stages, arguments.triton_stages, arguments.kernels is not None]
    if any(others) or arguments.numerics:
        raise ShowError("--html writes all parts into one page: leave out the options that print parts or run the code")
    known = compiler.machine.targets()
    names = [name for name in (arguments.target or "").split(",") if name]
    targets = [compiler.target(name) for name in dict.fromkeys(names)]
    case, target_name = resolve_case(word, known, options)
    print_shadowed(word, case)
    targets = targets or [compiler.target(target_name or _project_target(known))]
    write_explanations = module_of(PAGE, "cli.explained_page", "--html").write_explanations
    file, said = write_explanations(compiler, case, targets, deviceless=arguments.deviceless)
    print(f"{file}: {said}")
    return 0


def _project_target(known: Collection[str]) -> str:
    """The first target of the project; says on stderr that there are others. Raises TargetError if it names none."""
    names = project_targets()
    if not names:
        raise TargetError(f"no target: add --target {{{','.join(known)}}}")
    if len(names) > 1:
        print(f"for {names[0]}, the first of conformance_targets; --target names another one", file=sys.stderr)
    return names[0]
