"""The real GPU of one item: an error that it reports after the item, and its memory."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

from conformance.devices.targets import Target
from conformance.harness.accidents import device_health
from conformance.harness.item.errors import DeviceError
from conformance.harness.session import Session
from conformance.storage.check_results import CheckResult, Outcome
from conformance.storage.runs import ItemRecord


class ItemDevice:
    """Is told the errors of the item's checks, and checks the device after the item.

    `check`: enters a check of this name, which reports what is raised in it.
    """

    def __init__(
        self, session: Session, target: Target, record: ItemRecord, check: Callable[[str], AbstractContextManager[None]]
    ) -> None:
        self._session, self._target, self._record, self._check = session, target, record, check
        self._ran_out_of_memory = False
        self._excused: list[str] = []

    def note(self, error: BaseException) -> None:
        """An error of a check."""
        self._ran_out_of_memory |= device_health.is_out_of_memory(error)

    def note_excused(self, error: BaseException) -> None:
        """An error that a known failure excuses. The device may report the same error once more after the item."""
        self._excused.append(str(error))

    @contextlib.contextmanager
    def checked(self) -> Iterator[None]:
        """Checks the device after the block. Raises DeviceError if it reports an error that no check has met."""
        try:
            yield
        except KeyboardInterrupt:
            raise  # the device may hang, and the user wants to stop
        except BaseException:
            self._check_device()
            raise
        self._check_device()

    def _check_device(self) -> None:
        """Also notes that this process must end, if the device works no longer."""
        device, name, checks = self._target.device, self._record.name, self._record.checks
        if self._ran_out_of_memory:
            device_health.release_memory(device)
        if self._record.mode != "native" or device == "cpu":
            return
        state = device_health.device_state(device)
        failed = {check: result for check, result in checks.items() if result.outcome is Outcome.FAILED}
        if state.is_broken:
            self._session.broken = f"{name} has broken the {device} context ({state.error})"
            for check, result in failed.items():
                if state.error not in result.detail:
                    checks[check] = CheckResult(result.outcome, f"{result.detail} ({state.error})")
        if state.error and not failed and not any(state.error in error for error in self._excused):
            with self._check("device"):
                error = DeviceError(f"{name}: the device reports after the item: {state.error}")
                checks["device"] = CheckResult(Outcome.FAILED, f"{type(error).__name__}: {error}")
                raise error
