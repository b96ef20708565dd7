"""The capture of one item: shared with another target's item, made ahead of the item, or made now."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from conformance.cases.case import Case
from conformance.compiler.case_request import CaseRequest
from conformance.devices.targets import Target
from conformance.harness.reuse.lookup import LookUp, look_up
from conformance.harness.session import Session
from conformance.normalize.wrapper_modules import normalise
from conformance.settings import option_name
from conformance.storage.check_results import Outcome
from conformance.storage.runs import ItemRecord

if TYPE_CHECKING:
    from conformance.capture.model import Capture, Mode
    from conformance.capture.result import CaptureResult


class ItemCapture:
    """Captures one item. `looked_up`: its numerics in the store of what passed before; after `captured` began."""

    def __init__(self, session: Session, case: Case, target: Target) -> None:
        self._session, self._case, self._target = session, case, target
        self._mode: Mode = "deviceless" if case.compared_as else session.mode(target)
        self._shared_with = ""
        self.looked_up = LookUp()

    @property
    def is_on_device(self) -> bool:
        """Whether the item runs on a real GPU."""
        return self._mode == "native" and self._target.device != "cpu"

    @property
    def emulates(self) -> bool:
        """Whether the item's numerics are those of a missing GPU's code, executed on the CPU."""
        checked = self._session.mode(self._target) != "native" and "numerics" in self._session.settings.checks
        return checked and not self._session.reason_not_emulated(self._target)

    @contextlib.contextmanager
    def captured(self) -> Iterator[CaptureResult]:
        """The capture. Raises what compiling raises."""
        if (shared := self._shared()) is not None:
            self._shared_with = shared.shared_with
            yield shared
            return
        settings = self._session.settings
        request = CaseRequest(
            self._case,
            self._target,
            self._mode,
            emulate=self.emulates and not self._case.compared_as,
            texts=self.is_on_device,
            defer_build=settings.kernels == "batched",
        )
        with self._session.capture(request) as result:
            if result.compiled is not None and "numerics" in settings.checks:
                self.looked_up = self._look_up(result.capture)
            if "numerics" in settings.checks and self.looked_up.passed_before is None:
                result.build()
            yield result

    def share(self, result: CaptureResult, record: ItemRecord) -> None:
        """Lets other targets share the capture. Call it after the checks.

        Where the numerics did not pass, nothing is shared: each target runs and shows how it fails.
        """
        if self._session.settings.captures != "shared" or result.shared_with or self._case.compared_as:
            return
        runs = self.emulates or self._mode == "native"
        if not runs or record.outcome("numerics") is Outcome.PASSED:
            ran = result.extents() if self.emulates and not record.reused else None
            self._session.shared_captures.add(self._case, self._target, result.capture, result.queries, ran)

    def _shared(self) -> CaptureResult | None:
        """The capture of another target that is the same for this one, if nothing must run for this one alone."""
        from conformance.capture.result import CaptureResult

        if self.is_on_device or self._session.settings.captures != "shared" or self._case.compared_as:
            return None
        shared = self._session.shared_captures.find(self._case, self._target)
        if shared is None:
            return None
        result = CaptureResult(shared.for_target(self._target), shared_with=shared.target.name)
        if self.emulates and shared.numerics is not None:
            result.extents = lambda: shared.numerics
        if self.emulates:
            from conformance.capture.emulation.wrapper import Emulation

            with Emulation(self._target).on_one_thread():  # as where numerics run
                looked_up = self._look_up(result.capture)
            if shared.numerics is None and looked_up.passed_before is None:
                return None
            self.looked_up = looked_up
        return result

    def _look_up(self, capture: Capture) -> LookUp:
        session = self._session
        if session.settings.audit:
            return LookUp()  # an audit neither reads nor writes what passed before
        return look_up(
            session.passed_numerics,
            self._case,
            self._target,
            session.machine,
            capture,
            fresh=session.settings.fresh,
            other_inputs=session.compiles_other_inputs(self._case),
        )

    def add_texts(self, capture: Capture) -> str:
        """Adds graphs and nodes, which are slow to make, for artifacts: a second capture records them.

        Not for a real GPU: there the first capture has them, because a failed item may have broken the device.
        Returns a paragraph for the failure's message where the capture is shared and the second one has other code,
        which must not happen; "" otherwise.
        """
        if self.is_on_device or any(module.ir_pre_fusion for module in capture.modules):
            return ""
        device = self._target.device
        with self._session.capture(CaseRequest(self._case, self._target, "deviceless")) as again:
            again.capture.complete()
            same = len(capture.modules) == len(again.capture.modules)
            for module, other in zip(capture.modules, again.capture.modules, strict=False):
                if normalise(module.code, device) == normalise(other.code, device):
                    module.ir_pre_fusion = other.ir_pre_fusion
                    module.graph = module.graph or other.graph
                    module.ir_post_fusion = module.ir_post_fusion or other.ir_post_fusion
                else:
                    same = False
        if same or not self._shared_with:
            return ""
        return (
            f"{self._target.name} shares the capture of {self._shared_with}, but its own capture has other code. "
            f"This is a defect of conformance; {option_name('captures')} alone avoids it.\n\n"
        )
