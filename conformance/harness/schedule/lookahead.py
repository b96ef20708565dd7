"""Looks ahead: which items this process runs after the current one, in the same batch."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from conformance.cases.case import Case
from conformance.devices.targets import Target
from conformance.harness.collected import conformance_item, is_conformance_item
from conformance.harness.schedule.batches import Batch


class Lookahead:
    """A plugin for a process that runs items. `plan`: divides node ids into batches, alike in all processes."""

    def __init__(self, config: pytest.Config, plan: Callable[[Sequence[str]], list[Batch]]) -> None:
        self._config, self._plan = config, plan
        self._items: list[pytest.Item] = []
        self._number: dict[str, int] = {}  # node id → number
        self._current = 0
        self._next: pytest.Item | None = None

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._items = session.items
        self._number = {item.nodeid: number for number, item in enumerate(session.items)}

    @functools.cached_property
    def _batch(self) -> list[Batch]:
        """Number of a test → its batch. --collect-only needs none."""
        return [batch for batch in self._plan(list(self._number)) for _ in batch.items]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        self._current, self._next = self._number[item.nodeid], nextitem

    def upcoming_items(self) -> list[tuple[Case, Target]]:
        """The case and the target of each item of the current item's batch that this process runs after it, in order.

        With workers, pytest-xdist may have given the end of a batch to another worker: what counts is this worker's
        queue.
        """
        batch = self._batch[self._current]
        queue = self._queue()
        numbers = range(self._current + 1, batch.numbers.stop) if queue is None else queue
        tests = (self._items[number] for number in numbers if number in batch.numbers)
        items = [conformance_item(test) for test in tests if is_conformance_item(test)]
        return [(item.case, item.target) for item in items]

    def _queue(self) -> list[int] | None:
        """The numbers of the tests that pytest-xdist has sent to this worker and that have not begun; else None."""
        worker: Any = next((each for each in self._config.pluginmanager.get_plugins() if hasattr(each, "torun")), None)
        if worker is None:
            return None
        with worker.torun.lock() as queue:
            numbers = [number for number in queue if isinstance(number, int)]
        return ([self._number[self._next.nodeid]] if self._next is not None else []) + numbers
