"""Captures of the next items, made together: their C++ kernels are compiled in one batch.

A worker that comes to an item without a capture captures it and the next items of its batch. Each item then takes its
capture from the session, and runs as it would alone. An item that cannot be captured ahead is captured in its turn, and
shows its own errors.
"""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from conformance.cases.case import Case
from conformance.cases.selectors import exclusion
from conformance.devices.targets import Target
from conformance.devices.vendor_devices import kernel_language
from conformance.errors import ConformanceError
from conformance.harness.collected import conformance_item, is_conformance_item
from conformance.harness.reuse.lookup import look_up
from conformance.storage.runs import is_running

if TYPE_CHECKING:
    from conformance.compiler.ahead import AheadCapture
    from conformance.harness.session import Session


class CapturesAhead:
    """A plugin for a process that runs items.

    Register it after the plugins that note which item begins: an accident in here belongs to no item that has begun.
    While an item is captured ahead, a file of the run names it; while the kernels of a batch are compiled, it names all
    of the batch. A process that ends by accident leaves the file: then these items are not captured ahead again, so
    that the accident shows in the turn of the item that it belongs to.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._tried: set[str] = set()
        self._file = session.run.folder / "ahead" / str(os.getpid())

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> None:
        if is_conformance_item(item):
            own = conformance_item(item)
            if own.name not in self._tried and self._is_eligible(own.case, own.target):
                self._look_ahead([(own.case, own.target), *self._session.upcoming_items()])

    def _look_ahead(self, items: Sequence[tuple[Case, Target]]) -> None:
        """Captures those of the items that need C++ kernels."""
        self._session.waiting_captures.clear()  # what is left belongs to items that another worker runs
        suspects = self._suspects()
        chosen = {
            name: (case, target)
            for case, target in items
            if (name := f"{case.id}-{target.name}") not in suspects and self._is_eligible(case, target)
        }
        self._tried.update(chosen)
        if len(chosen) > 1:
            self._session.set_up_torch()
            try:
                # OSError: a full disk or a lost folder. Each item meets it in its turn, and reports it.
                with contextlib.suppress(OSError), _without_warnings():
                    self._capture(chosen)
            finally:
                with contextlib.suppress(OSError):
                    self._file.unlink(missing_ok=True)

    def _capture(self, items: dict[str, tuple[Case, Target]]) -> None:
        from conformance.capture.toolchain.kernel_batch import KernelBatch
        from conformance.compiler.ahead import capture_ahead

        batch = KernelBatch()
        self._file.parent.mkdir(parents=True, exist_ok=True)
        for name, (case, target) in items.items():
            self._file.write_text(name, encoding="utf-8")
            self._session.restart_time_limit()
            with contextlib.suppress(Exception):  # the item is captured in its turn, and that shows what is wrong
                waiting = capture_ahead(case, target)
                if self._needs_kernels(case, target, waiting):
                    waiting.collect_kernels(batch)
                self._session.waiting_captures[name] = waiting
        self._file.write_text("\n".join(items), encoding="utf-8")
        self._session.restart_time_limit()
        batch.compile()
        self._session.restart_time_limit()

    def _needs_kernels(self, case: Case, target: Target, waiting: AheadCapture) -> bool:
        """Whether the item's numerics will run: they did not pass before."""
        session = self._session
        if session.settings.fresh or session.settings.audit:
            return True
        others = session.compiles_other_inputs(case)
        known = look_up(
            session.passed_numerics, case, target, session.machine, waiting.capture, fresh=False, other_inputs=others
        )
        return known.passed_before is None

    def _is_eligible(self, case: Case, target: Target) -> bool:
        session = self._session
        settings = session.settings
        if kernel_language(target.device) != "cpp" or settings.kernels != "batched" or settings.backend_option:
            return False
        others = {each.name for each in session.selected_targets} if settings.captures == "shared" else set()
        if target.device == "cpu" and target.code_like in others:
            return False  # in its turn, it may share the capture of that row
        if session.mode(target) != "native" or session.compiler.generation_problem(target) or exclusion(case, target):
            return False
        try:
            known = session.known_failures_of(case)
        except ConformanceError:
            return False  # the item reports it
        left_out = [
            known.entry_that_leaves_out(case.id, check, target.name, session.torch, "native")
            for check in ("compile", "numerics")
        ]
        return not any(left_out) and not session.run.has_ended(f"{case.id}-{target.name}")

    def _suspects(self) -> set[str]:
        """The items that other processes were capturing ahead when they ended."""
        left = [path for path in self._file.parent.glob("*") if path != self._file and not is_running(int(path.name))]
        return {name for path in left for name in _read(path).splitlines()}


@contextlib.contextmanager
def _without_warnings() -> Iterator[None]:
    """Pytest would show a warning as one of the current item."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _read(path: Path) -> str:
    with contextlib.suppress(OSError):
        return path.read_text(encoding="utf-8")
    return ""
