"""What a numerics check compares where the function is random: see numerics/random_draws.py."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from conformance.compiler.case_request import CaseRequest

if TYPE_CHECKING:
    from conformance.capture.result import CaptureResult
    from conformance.cases.case import Case
    from conformance.compiler.precision_casts import Captures
    from conformance.devices.targets import Target
    from conformance.numerics.comparison import Comparison

#: The note of a random item, in the record, in the log and in `show`.
RANDOM = "random: compared with eager's numbers (fallback_random); its own numbers by their distribution"


@contextlib.contextmanager
def compared(
    captures: Captures,
    case: Case,
    target: Target,
    captured: CaptureResult,
    comparison: Comparison,
    *,
    emulates: bool,
) -> Iterator[tuple[Case, Callable[..., Any], str]]:
    """(the case to check, its compiled function, a note). Of a random function: those that draw what eager draws.

    Without the device, eager has the device's strides. `captures`: captures once more. `comparison`: the one that the
    check inside fills; gets notes on roundings.
    Raises NumericsError where what compiled draws by default breaks a promise of random numbers.
    """
    from conformance.capture.emulation.fake_strides import with_device_strides
    from conformance.compiler.precision_casts import roundings_explained
    from conformance.numerics import random_draws
    from conformance.numerics.comparison import NumericsError
    from conformance.numerics.problem import ORDINARY_CALLS, Problem

    if captured.compiled is None:
        raise TypeError("a capture that does not run has no numerics")
    mode = captured.capture.mode
    eager = case if mode == "native" else replace(case, fn=with_device_strides(case.fn))
    if random_draws.is_seeded(case) or not random_draws.is_random(eager):
        with roundings_explained(captures, case, eager, target, mode, comparison, emulates=emulates):
            yield eager, captured.compiled, ""
        return
    if texts := random_draws.problems(eager, captured.compiled, target.device):
        problems = [Problem("", "random numbers", text, ORDINARY_CALLS[0]) for text in texts]
        raise NumericsError("\n".join([f"{case.id} is random, and what compiled draws is wrong", *texts]), problems)
    twin, eager = random_draws.seeded(case), random_draws.seeded(eager)
    with captures(CaseRequest(twin, target, mode, emulate=emulates)) as seeded:
        seeded.build()
        if seeded.compiled is None:
            raise TypeError("a capture that runs has no compiled function with fallback_random")
        try:
            with roundings_explained(captures, twin, eager, target, mode, comparison, emulates=emulates):
                yield eager, seeded.compiled, RANDOM
        except NumericsError as error:
            raise NumericsError(f"{error}\n{RANDOM}", error.problems) from None
