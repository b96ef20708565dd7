"""The states of items: what each one means to a person, the most severe one first."""

from __future__ import annotations

import re

from conformance.harness import accounting
from conformance.storage.check_results import CheckResult, Outcome
from conformance.storage.runs import ItemRecord

(WRONG_VALUES, CRASH, NOT_RUN, NOT_MET, CODE_CHANGED, STALE, NOT_STORED, CANNOT_RUN) = (
    *("wrong values", "crash", "not run", "requirement not met", "code changed", "stale known failure", "not stored"),
    "cannot run here",
)
#: The states in which an item needs someone.
NEEDY = (WRONG_VALUES, CRASH, NOT_RUN, NOT_MET, CODE_CHANGED, STALE, NOT_STORED, CANNOT_RUN)
STATES = (*NEEDY, "missed optimisation", "known failure", "excluded by the case", "passed")

#: Those that say something of torch and of the suite, and not of the machine, of what is stored, or of how a run ended.
BAD = (WRONG_VALUES, CRASH, NOT_MET, CODE_CHANGED, STALE)

#: accounting.ENDINGS but "failed" → the state.
_OF_ENDINGS = {
    "not run": NOT_RUN,
    "cannot run": CANNOT_RUN,
    "known failures": "known failure",
    "with missed optimisations": "missed optimisation",
    "excluded": "excluded by the case",
    "passed": "passed",
}
#: The error with which a check says no → the state. Any other error is a crash.
_OF_ERRORS = {
    "NumericsError": WRONG_VALUES,
    "RequirementError": NOT_MET,
    **dict.fromkeys(("CodeError", "BinaryError", "DevicelessError"), CODE_CHANGED),
}
#: Begins the detail of a failed check whose cause is an exception.
_ERROR = re.compile(r"(\w+): ")


def state_of(record: ItemRecord | None) -> str:
    """One of STATES. `record`: None if the item was selected and no run recorded it."""
    ending = accounting.ending(record) if record else "not run"
    if record is None or ending != "failed":
        return _OF_ENDINGS[ending]
    return min((failure(name, each) for name, each in failed_checks(record).items()), key=STATES.index)


def failed_checks(record: ItemRecord) -> dict[str, CheckResult]:
    """The checks that make a run fail."""
    return {name: each for name, each in record.checks.items() if each.outcome in (Outcome.FAILED, Outcome.STALE)}


def failure(check: str, result: CheckResult) -> str:
    """The state that a failed check alone would give its item."""
    if result.outcome is Outcome.STALE:
        return STALE
    if accounting.is_unstored(result.detail):
        return NOT_STORED
    error = _ERROR.match(result.detail)
    if error is None and check == "compile":
        return CANNOT_RUN  # the user named its target, and this machine lacks what it needs
    return _OF_ERRORS.get(error[1], CRASH) if error else CRASH
