"""The check "same_bits" of an item: which bits its code keeps. See docs/same-bits.md."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from conformance.cases.bit_variants import PROPERTIES, RUN, SAME, UNDEFINED
from conformance.cases.case import Case
from conformance.compiler.same_bits import UNEXPLAINED, Verdict, verdicts_on, worst
from conformance.devices.targets import Target
from conformance.harness.item.errors import BitsError, SkipError
from conformance.harness.item.known_failures import ItemKnownFailures
from conformance.harness.session import Session
from conformance.storage.check_results import CheckResult, Outcome
from conformance.storage.runs import ItemRecord

if TYPE_CHECKING:
    from conformance.capture.result import CaptureResult


class ItemBits:
    """The verdicts on an item's capture. Those of a property are made once."""

    def __init__(
        self, session: Session, case: Case, target: Target, record: ItemRecord, known_failures: ItemKnownFailures
    ) -> None:
        self.session, self.case, self.target, self.record = session, case, target, record
        self.known_failures = known_failures
        self._made: dict[str, list[Verdict]] = {}

    def verdicts(self, result: CaptureResult, kinds: Collection[str]) -> Iterator[Verdict]:
        """A verdict on each variant of each property of `kinds`, with the case's own options."""
        deviceless, native = self.record.mode != "native", self._runs(result)
        for kind in kinds:
            if kind not in self._made:
                found = verdicts_on(
                    self.session.compiler, self.case, self.target, result, [kind], deviceless=deviceless, native=native
                )
                self._made[kind] = list(found)
            yield from self._made[kind]

    def check(self, result: CaptureResult) -> None:
        """Records a verdict on each property.

        Raises BitsError where nothing in the code explains that bits differ, and where a property is lost that the
        baseline run has. Raises SkipError where there is no code.
        """
        if result.capture.error:
            raise SkipError(f"there is no code: compiling raises {result.capture.error}")
        found = {kind: worst(list(self.verdicts(result, [kind]))) for kind in PROPERTIES}
        raised = found[RUN].text if found[RUN].word == UNDEFINED else ""
        if raised and (entry := self.known_failures.entry_for("compile", BitsError(raised))):
            # The first call is a part of compiling. Where numerics run, it was made before.
            self.record.checks["compile"] = CheckResult(Outcome.KNOWN, entry.reason)
            raise SkipError(f"a known failure: {found[RUN].first_text}")
        if wrong := self.known_failures.reason("numerics"):
            for kind, each in found.items():
                if each.reason == UNEXPLAINED:
                    found[kind] = replace(each, reason=f"its values are wrong, a known failure: {wrong}")
        self.record.same_bits = {kind: _as_data(each) for kind, each in found.items()}
        problems = [f"{each}" for each in found.values() if each.reason == UNEXPLAINED]
        if self.session.baseline is not None:
            problems += self._lost(found)
        if problems:
            raise BitsError(f"{self.case.id}-{self.target.name}: other bits\n" + "\n".join(problems))

    def _lost(self, found: dict[str, Verdict]) -> list[str]:
        """The properties that the baseline run has and this has not; and other bits of the same code."""
        name, before = self.session.settings.baseline, self.session.baseline
        record = before.item(self.case.id, self.target.name) if before else None
        kept = record.same_bits if record else {}
        lost = [
            f"{each}\n{'':14}the run {name}: {SAME}"
            for kind, each in found.items()
            if each.word != SAME and kept.get(kind, {}).get("word") == SAME
        ]
        bits, theirs = found[RUN].bits, kept.get(RUN, {}).get("bits")
        is_same_code = record and (record.text, record.torch) == (self.record.text, self.record.torch)
        if is_same_code and found[RUN].word == SAME and bits and theirs and bits != theirs:
            lost.append(f"{RUN:<14}the same code has other bits than in the run {name}, in another process")
        return lost

    def _runs(self, result: CaptureResult) -> bool:
        """Whether bits are compared. Code that gives wrong values, or crashes, is not called again."""
        return (
            self.record.mode == "native"
            and result.compiled is not None
            and self.record.outcome("numerics") in (None, Outcome.PASSED)
            and self.known_failures.entry_that_leaves_out("numerics") is None
        )


def _as_data(verdict: Verdict) -> dict[str, str]:
    data = asdict(verdict) | {"text": verdict.first_text}
    return {key: data[key] for key in ("word", "evidence", "name", "text", "reason", "bits")}
