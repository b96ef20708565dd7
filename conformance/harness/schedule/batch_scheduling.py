"""Hands batches out to the workers of pytest-xdist: the longest first, and parts of them near the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdist.scheduler import LoadScheduling

from conformance.harness.schedule.batches import Batch, ScheduledItem, longest_first

#: A worker gets at most this share of what is left for each worker, so that all workers end at about the same time.
_SHARE = 0.5
#: pytest-xdist starts a test only when the worker knows the next one, or knows that there is none.
_NEEDED = 2
#: With so many seconds left for each worker, a worker gets its next batch one test early, and does not wait for it.
_AMPLE = 20.0


class BatchScheduling(LoadScheduling):
    """A scheduler for `--dist load`. What it does not say stays as in LoadScheduling: crashes, restarts, the end.

    `plan`: divides node ids into batches. `pending` of LoadScheduling holds the numbers of the tests that no worker has
    yet, batch after batch; `node2pending` those that a worker has and has not ended.
    """

    collection: list[str] | None

    def __init__(self, config: Any, log: Any, plan: Callable[[Sequence[str]], list[Batch]]) -> None:
        super().__init__(config, log)
        self._plan = plan
        self._items: list[ScheduledItem] = []
        self._batch: list[int] = []  # number of a test → number of its batch

    def schedule(self) -> None:
        """pytest-xdist calls this when all workers have collected, and again for a worker that replaces one."""
        if self.collection is not None:
            for node in self.nodes:
                self.check_schedule(node)
            return
        if not self._check_nodes_have_same_collection():
            return
        collected: list[str] = next(iter(self.node2collection.values()))
        self.collection = collected
        self._order(self._plan(collected))
        for node in self.nodes:
            self._send_tests(node, self._next_part())
        for node in self.nodes:
            self.check_schedule(node)

    def _order(self, batches: Sequence[Batch]) -> None:
        self._items = [item for batch in batches for item in batch.items]
        self._batch = [number for number, batch in enumerate(batches) for _ in batch.items]
        self.pending[:] = [number for batch in longest_first(batches) for number in batch.numbers]

    def check_schedule(self, node: Any, duration: float = 0) -> None:  # noqa: ARG002 - LoadScheduling's
        """Gives the worker its next tests, if it has run nearly all of its own."""
        if node.shutting_down:
            return
        own = self.node2pending[node]
        if len(own) < _NEEDED or (len(own) == _NEEDED and self._seconds_left() > _AMPLE):
            self._send_tests(node, self._next_part())
        while self.pending and len(own) < _NEEDED:
            self._send_tests(node, 1)
        if not self.pending:
            node.shutdown()  # the worker ends when it has run what it has

    def _seconds_left(self) -> float:
        """How long each worker would take for its share of the tests that no worker has yet."""
        return sum(self._items[number].seconds for number in self.pending) / max(1, len(self.nodes))

    def _next_part(self) -> int:
        """How many of the pending tests a worker gets next: the batch at their front, or the first of its cases.

        A part takes at most half of the seconds that are left for each worker, or it is one test.
        """
        limit, seconds, end_of_case = self._seconds_left() * _SHARE, 0.0, 0
        for count, number in enumerate(self.pending):
            item, before = self._items[number], self.pending[count - 1]
            if count and self._batch[number] != self._batch[before]:
                return count
            if count and item.case != self._items[before].case:
                end_of_case = count
            seconds += item.seconds
            if count and seconds > limit:
                return end_of_case or count
        return len(self.pending)
