"""What the numerics check of an item compares where the function is random: see numerics/random_draws.py."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from conformance.capture.request import CaptureRequest

if TYPE_CHECKING:
    from conformance.capture.result import CaptureResult
    from conformance.cases.case import Case
    from conformance.devices.targets import Target
    from conformance.harness.session import Session

#: The note of a random item, in the record and in the log.
RANDOM = "random: compared with eager's numbers (fallback_random); its own numbers by their distribution"


@contextlib.contextmanager
def compared(
    session: Session, case: Case, target: Target, captured: CaptureResult, *, emulates: bool
) -> Iterator[tuple[Case, Callable[..., Any], str]]:
    """(the case to check, its compiled function, a note). Of a random function: those that draw what eager draws.

    Raises NumericsError where what compiled draws by default breaks a promise of random numbers.
    """
    from conformance.numerics import random_draws
    from conformance.numerics.comparison import NumericsError

    if captured.compiled is None:
        raise TypeError("a capture that does not run has no numerics")
    if random_draws.is_seeded(case) or not random_draws.is_random(case):
        yield case, captured.compiled, ""
        return
    if problems := random_draws.problems(case, captured.compiled, target.device):
        raise NumericsError("\n".join([f"{case.id} is random, and what compiled draws is wrong", *problems]))
    twin = random_draws.seeded(case)
    with session.capture(CaptureRequest(twin, target, captured.capture.mode, emulate=emulates)) as seeded:
        seeded.build()
        if seeded.compiled is None:
            raise TypeError("a capture that runs has no compiled function with fallback_random")
        try:
            yield twin, seeded.compiled, RANDOM
        except NumericsError as error:
            raise NumericsError(f"{error}\n{RANDOM}", error.problems) from None
