"""Captures of the next items, made together: their C++ kernels are compiled in one batch.

A worker that comes to an item without a capture captures it and the next items of its batch. Each item then takes its
capture from the session, and runs as it would alone. An item that cannot be captured ahead is captured in its turn, and shows its own
errors.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from conformance.cases.selectors import exclusion
from conformance.errors import ConformanceError
from conformance.storage.runs import is_running

if TYPE_CHECKING:
    from conformance.harness.item import Item
    from conformance.harness.session import Session

#: How many cases are captured ahead for a target. More need more memory, and fewer batches need more time.
CASES = 24


class CapturesAhead:
    """The captures of one process that wait for their items.

    While an item is captured ahead, a file of the run names it. A process that ends by accident leaves the file: then
    that item is not captured ahead again, so that the accident shows in its own turn.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._tried: set[str] = set()
        self._file = session.run.folder / "ahead" / str(os.getpid())

    def look_ahead(self, item: Item, following: Iterable[Item]) -> None:
        """Captures `item` and those of the `following` items that need C++ kernels, unless `item` was tried before.

        `following`: items that this process runs next.
        """
        if item.name in self._tried or not self._is_eligible(item):
            return
        self._session.waiting_captures.clear()  # what is left belongs to items that another worker runs
        suspects = self._suspects()
        items = [each for each in (item, *following) if each.name not in suspects and self._is_eligible(each)]
        self._tried.update(each.name for each in items)
        if len(items) > 1:
            self._session.set_up_torch()
            try:
                self._capture(items)
            finally:
                self._file.unlink(missing_ok=True)

    def _capture(self, items: Iterable[Item]) -> None:
        from conformance.capture.ahead import capture_ahead
        from conformance.capture.toolchain.kernel_batch import KernelBatch

        batch = KernelBatch()
        self._file.parent.mkdir(parents=True, exist_ok=True)
        for item in items:
            self._file.write_text(item.name, encoding="utf-8")
            with contextlib.suppress(Exception):  # the item is captured in its turn, and that shows what is wrong
                waiting = capture_ahead(item.case, item.target)
                waiting.collect_kernels(batch)
                self._session.waiting_captures[item.name] = waiting
        batch.compile()

    def _is_eligible(self, item: Item) -> bool:
        session, case, target = self._session, item.case, item.target
        settings = session.settings
        if target.device != "cpu" or settings.kernels != "batched" or settings.backend_option:
            return False
        if session.mode(target) != "native" or session.generation_problem(target) or exclusion(case, target):
            return False
        try:
            known = session.known_failures_of(case)
        except ConformanceError:
            return False  # the item reports it
        left_out = [
            known.entry_that_leaves_out(case.id, check, target.name, session.torch, "native")
            for check in ("compile", "numerics")
        ]
        return not any(left_out) and not session.run.has_ended(item.name)

    def _suspects(self) -> set[str]:
        """The items that other processes were capturing ahead when they ended."""
        return {
            _read(path) for path in self._file.parent.glob("*") if path != self._file and not is_running(int(path.name))
        }


def _read(path: Path) -> str:
    with contextlib.suppress(OSError):
        return path.read_text(encoding="utf-8")
    return ""
