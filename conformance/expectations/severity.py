"""How bad a known bug is for a user of torch.compile. Upstream ranks bugs in this way: silent wrong results come first.

The severity is computed from what a known failure excuses.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

from conformance.cases.special_values import GROUPS
from conformance.expectations.known_failure_entry import KnownFailure
from conformance.numerics.problem import Excuse

#: torch.testing.assert_close's default absolute tolerance of float32. A known failure bounds |compiled - eager|, and
#: names neither the dtype nor the magnitude of the elements. So a larger bound counts as beyond the default tolerances.
DEFAULT_TOLERANCE = 1e-5
#: Cases of this operator have every value of a dtype in their ordinary calls: NaN, infinities and denormals too.
_EVERY_VALUE = ("every_value/", "accuracy/")
#: Errors of the emulation and of devices, where compiled code reads or writes other memory.
_OTHER_MEMORY = ("out of bounds", "CUDA error")
_ZEROS = ({"0", "-0"}, {"0"}, {"-0"})
_MISSING_ERROR = "compiled raised nothing"
_SILENT = ("values", "constant", "outside write")


class Severity(IntEnum):
    """The worst one is the smallest."""

    WRONG_VALUES = 1
    WRONG_PROPERTIES = 2
    FAILS = 3
    EDGE_VALUES = 4

    @property
    def title(self) -> str:
        return _TITLES[self]

    @property
    def description(self) -> str:
        return _DESCRIPTIONS[self]


_TITLES = {
    Severity.WRONG_VALUES: "Wrong values in ordinary use",
    Severity.WRONG_PROPERTIES: "Wrong dtype, strides or missing errors",
    Severity.FAILS: "Does not compile, or raises",
    Severity.EDGE_VALUES: "Edge values",
}
_DESCRIPTIONS = {
    Severity.WRONG_VALUES: """\
Compiled code answers wrong values for ordinary inputs, beyond the default tolerances of `torch.testing.assert_close`.
Or it touches memory that is not its own.""",
    Severity.WRONG_PROPERTIES: """\
The values are right, and another property is not: dtype, strides, aliasing, `requires_grad`. Or compiled code raises
nothing where eager raises.""",
    Severity.FAILS: """\
Nothing is wrong in silence: compiling fails, or compiled code raises what eager does not. Requirements on the generated
code that do not hold are here too.""",
    Severity.EDGE_VALUES: """\
Only NaN, infinities, denormals, signs of zeros, the largest numbers or numbers of very different magnitudes show it.
Or the difference is within the default tolerances.""",
}


def severity(failures: Iterable[KnownFailure]) -> Severity:
    """The worst severity of the known failures of one bug. At least one is needed."""
    return min(_of_failure(failure) for failure in failures)


def _of_failure(failure: KnownFailure) -> Severity:
    if not failure.excuses:
        other_memory = failure.check == "numerics" and any(text in failure.error for text in _OTHER_MEMORY)
        is_harmless = failure.triage is not None and failure.triage.right == "either"  # a person has read the binary
        return Severity.WRONG_VALUES if other_memory and not is_harmless else Severity.FAILS
    if all(case.startswith(_EVERY_VALUE) for case in failure.cases):
        return Severity.EDGE_VALUES
    return min(_of_excuse(excuse) for excuse in failure.excuses)


def _of_excuse(excuse: Excuse) -> Severity:
    if set(excuse.calls) <= set(GROUPS):
        return Severity.EDGE_VALUES
    if excuse.rule in _SILENT:
        beyond = excuse.rule != "values" or any(_is_beyond(change, excuse.off_by) for change in excuse.changes)
        return Severity.WRONG_VALUES if beyond else Severity.EDGE_VALUES
    if excuse.rule == "raises":
        return Severity.WRONG_PROPERTIES if _MISSING_ERROR in excuse.error else Severity.FAILS
    return Severity.FAILS if excuse.rule == "recompiles" else Severity.WRONG_PROPERTIES


def _is_beyond(change: str, off_by: float) -> bool:
    """Whether a change, such as "0 → number", is beyond the default tolerances."""
    kinds = set(change.split(" → "))
    if kinds in _ZEROS:  # assert_close does not compare signs of zeros
        return False
    return bool(kinds - {"0", "-0", "number"}) or off_by > DEFAULT_TOLERANCE
