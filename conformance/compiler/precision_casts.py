"""What emulate_precision_casts changes, where compiled leaves out a rounding of eager: a further compile tells."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from conformance.compiler.case_request import CaseRequest
from conformance.errors import first_line
from conformance.numerics.conversions import CASTS

if TYPE_CHECKING:
    from conformance.capture.model import Mode
    from conformance.capture.result import CaptureResult
    from conformance.cases.case import Case
    from conformance.devices.targets import Target
    from conformance.numerics.comparison import Comparison

    #: What makes a capture.
    Captures = Callable[[CaseRequest], contextlib.AbstractContextManager[CaptureResult]]


@contextlib.contextmanager
def roundings_explained(
    captures: Captures, case: Case, eager: Case, target: Target, mode: Mode, comparison: Comparison, *, emulates: bool
) -> Iterator[None]:
    """Wraps a numerics check. Adds to `comparison.roundings` whether the option rounds, and which is nearer to float64.

    A NumericsError of the check gets these notes too. `case`: to compile. `eager`: with the function to compare with.
    `comparison`: the one that the check fills.
    """
    from conformance.numerics.comparison import NumericsError

    try:
        yield
    except NumericsError as error:
        if not comparison.roundings:
            raise
        comparison.roundings += _notes(captures, case, eager, target, mode, comparison, emulates=emulates)
        raise NumericsError("\n".join([str(error), *comparison.roundings]), error.problems) from None
    if comparison.roundings:
        comparison.roundings += _notes(captures, case, eager, target, mode, comparison, emulates=emulates)


def _notes(
    captures: Captures, case: Case, eager: Case, target: Target, mode: Mode, comparison: Comparison, *, emulates: bool
) -> Iterator[str]:
    """A note for each tensor that a rounding is missing in, after a compile with the option."""
    from conformance.capture.emulation.errors import NotEmulatedError
    from conformance.cases.tolerance_policy import Policy
    from conformance.numerics.check import TITLES, Call, call_comparison
    from conformance.numerics.comparison import CandidateError, Comparison
    from conformance.numerics.measurement import EAGER_BITS
    from conformance.numerics.outcome import ends_the_check
    from conformance.numerics.problem import ORDINARY_CALLS

    if case.config.get(CASTS):
        yield f"{CASTS} is on and does not bring the rounding back"
        return
    first = ORDINARY_CALLS[0]
    policy = Policy.for_case(case, target.name, target.device)
    compared = call_comparison(
        eager, target.device, policy, Comparison(), Call("ordinary", first, TITLES[first], case.build(0))
    )
    request = CaseRequest(case.with_config({CASTS: True}), target, mode, emulate=emulates, texts=False)
    try:
        with captures(request) as result:
            result.build()
            problems = compared.problems(result.compiled) if result.compiled is not None else []
    except Exception as error:  # noqa: BLE001 - the case was compiled without the option: that it fails with it is a note
        cause = error.__cause__ or error if isinstance(error, CandidateError) else error
        if ends_the_check(cause) and not isinstance(cause, NotEmulatedError):
            raise cause from None
        yield f"with {CASTS}: {first_line(cause)}"
        return
    lines = [f"disagrees with eager: {problem.text.splitlines()[0]}" for problem in problems[:1]]
    lines += compared.comparison.roundings
    if not lines:
        rounded = {note.partition(": ")[0] for note in comparison.roundings}
        for _, name, measurement in compared.comparison.measurements:
            if name in rounded:
                how = "bit for bit" if measurement.exact or measurement.rule == EAGER_BITS else "within the tolerance"
                yield f"{name} with {CASTS}: as eager, {how}"
    yield from (f"with {CASTS}: {line}" for line in lines)
