"""Looks up whether the numerics of an item passed before, and stores that they passed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from conformance.devices.vendor_devices import vendor_devices
from conformance.harness.reuse.numerics_digest import numerics_digest, reason_to_run
from conformance.storage.check_results import CheckResult, Outcome
from conformance.storage.passed_numerics import PassedNumerics, Verdict

if TYPE_CHECKING:
    from conformance.capture.model import Capture
    from conformance.cases.case import Case
    from conformance.devices.machine import Machine
    from conformance.devices.targets import Target


@dataclass
class LookUp:
    """The numerics of one item in the store. Ask it before they run, and tell it the result after they ran.

    `passed_before`: the verdict that counts instead of a run; None where they must run.
    `doubted`: with --fresh: the verdict that this run replaces.
    """

    passed_before: Verdict | None = None
    doubted: Verdict | None = None
    _store: PassedNumerics | None = None
    _digest: str = ""

    def keep(self, result: CheckResult, how: str, run: str, item: str) -> str:
        """Stores a plain pass of numerics that ran, and nothing else. `how`: "native" or "emulated".

        Returns a notice where a verdict of an earlier run is wrong; "" otherwise.
        """
        if self._store is None or self.passed_before is not None:
            return ""
        if result == CheckResult(Outcome.PASSED):
            self._store.add(self._digest, how, run, item)
        elif self.doubted is not None and result.outcome is Outcome.FAILED:
            return (
                f"{item}: numerics passed before ({self.doubted}) and fail now with the same code, inputs and machine: "
                "they are not stable, or they depend on what the suite does not see"
            )
        return ""


def look_up(
    store: PassedNumerics,
    case: Case,
    target: Target,
    machine: Machine,
    capture: Capture,
    *,
    fresh: bool,
    other_inputs: bool,
) -> LookUp:
    """Looks up the numerics of a captured item. `fresh`: withdraws a verdict, so that they run.

    `other_inputs`: whether the numerics compile more than the capture.
    """
    if target.device in vendor_devices() or reason_to_run(case, capture):  # a vendor's code may change unseen
        return LookUp()
    digest = numerics_digest(case, target, machine, capture, other_inputs=other_inputs)
    verdict = store.find(digest)
    if verdict is not None and fresh:
        store.withdraw(digest)  # now, because the run may crash
        return LookUp(None, verdict, store, digest)
    return LookUp(verdict, None, store, digest)
