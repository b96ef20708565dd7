"""`show`: what the compiler makes of a case, or of a function of one's own, on a target, generated now."""

from __future__ import annotations

import argparse
import contextlib
from typing import TYPE_CHECKING

from conformance.capture.offline.compiler import refuse_unknown_stage
from conformance.cases.adhoc import AdhocOptions, resolve_case
from conformance.cases.case import Case, CaseError
from conformance.cli.capture_sections import blocks, triton_stage
from conformance.cli.case_options import (
    EXPLORED,
    PARTS,
    add_adhoc_options,
    add_part_options,
    adhoc_options,
    selected_parts,
)
from conformance.cli.highlighting import highlighted
from conformance.devices.targets import Target, TargetError
from conformance.errors import ConformanceError
from conformance.harness.generator import GeneratingError, Generator, origin
from conformance.terminal import heading, styled

if TYPE_CHECKING:
    from conformance.capture.compile import CaptureResult


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "words", nargs="*", metavar="CASE", help="an id, a node id of pytest, FILE::id, or module:function"
    )
    parser.add_argument("--target", metavar="TARGET", help="may be left out where the node id ends in it")
    add_part_options(parser, list(PARTS))
    add_adhoc_options(parser)
    what = "a stage of each Triton kernel, compiled without the device: ttir, ttgir, llir, ptx, sass or spv"
    parser.add_argument("--stage", action="append", dest="triton_stages", default=[], metavar="STAGE", help=what)
    parser.add_argument("--numerics", action="store_true", help="check the results too, on the device or emulated")
    parser.add_argument("--deviceless", action="store_true", help="generate without the device, even where it is here")


class ShowError(ConformanceError, ValueError):
    """Not one thing to show."""


def run(arguments: argparse.Namespace) -> int:
    """Raises ShowError, AdhocError, InputError, UnknownCaseError, CaseError, TargetError, PreparationError and
    GeneratingError.
    """
    words = arguments.words
    if len(words) != 1:
        said = f"given are {' and '.join(map(repr, words))}" if words else "none is given"
        raise ShowError(f"show one case or function; {said} (`python -m conformance list` names the cases)")
    with contextlib.closing(Generator()) as generator:
        return _show(generator, words[0], adhoc_options(arguments), arguments)


def _show(generator: Generator, word: str, own: AdhocOptions, arguments: argparse.Namespace) -> int:
    known = generator.machine.targets()
    if arguments.target:
        generator.target(arguments.target)  # a wrong one is said before anything is imported
    case, named = resolve_case(word, known, own)
    if not (arguments.target or named):
        raise TargetError(f"which target? --target {{{','.join(known)}}}")
    target = generator.target(arguments.target or named)
    parts, stages = selected_parts(arguments)
    for stage in arguments.triton_stages:
        refuse_unknown_stage(stage, target.device)
    if not (parts or arguments.triton_stages):
        parts = [""]
    options = {"deviceless": arguments.deviceless, "run": arguments.numerics}
    native = generator.is_native(target, **options)
    explore = any(part in EXPLORED for part in parts)
    with generator.captured(case, target, explore=explore, **options) as captured:
        found = [block for part in parts for block in blocks(part, captured.capture, target, stages)]
        for stage in arguments.triton_stages:
            found += triton_stage(stage, captured.capture, target)
        print(heading(f"# {case.id} for {target.name}: {origin(captured.capture, target)}"))
        for number, block in enumerate(found):
            if len(found) > 1 or arguments.triton_stages:
                print(("\n" if number else "") + heading(f"# {block.title}"))
            print(highlighted(block.text, block.language), flush=True)
        if not arguments.numerics:
            return 0
        if captured.compiled is None and captured.worker_numerics is None:
            print(f"\nnumerics    not checked: {target.name} is not here")
            return 0
        return _numerics(case, captured, target, native=native)


def _numerics(case: Case, captured: CaptureResult, target: Target, *, native: bool) -> int:
    """Says what the check came to; 1 where it failed. Raises CaseError for a malformed policy, else GeneratingError."""
    from conformance.capture.emulation.errors import EmulationError, NotEmulatedError
    from conformance.capture.emulation.fake_strides import as_on_device
    from conformance.cases.numerics_policy import PolicyError
    from conformance.numerics.check import NumericsError, check_numerics

    how = "" if native else " (emulated)"
    # What another process found wrong has lost its type
    wrong = (NumericsError, EmulationError) if captured.worker_numerics is None else (AssertionError,)
    try:
        if captured.worker_numerics is not None:
            told = captured.worker_numerics()
        else:
            held = case if native else as_on_device(case)
            told = check_numerics(held, captured.compiled, target.device, target.name).summary()
    except wrong as error:
        print(f"\nnumerics    {styled('wrong', 'red')}{how}\n{error}")
        return 1
    except NotEmulatedError as error:
        print(f"\nnumerics    not checked: not emulated: {error}")
        return 0
    except PolicyError as error:
        raise CaseError(str(error)) from error
    except Exception as error:
        raise GeneratingError(f"{case.id} on {target.name}: {type(error).__name__}: {error}") from error
    print(f"\nnumerics    {styled('right', 'green')}{how}: {told[0]}")
    for note in told[1:]:
        print(f"            {note}")
    return 0
