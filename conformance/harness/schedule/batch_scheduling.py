"""Hands batches out to the workers of pytest-xdist: the longest first, and parts of them near the end.

What a batch takes is an estimate. When no batch is left, a worker that has nothing to do gets cases of the worker that
has most left.
"""

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
        self._asked_back: Any = None  # the worker that was asked to give tests back and has not answered yet

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
            self._rebalance()

    def _rebalance(self) -> None:
        """Asks the worker that has most left for tests, if another one has none. If no worker can give any, ends those.

        A worker answers at once, also while it runs a test. pytest-xdist then calls remove_pending_tests_from_node.
        """
        idle = [node for node in self.nodes if not node.shutting_down and len(self.node2pending[node]) < _NEEDED]
        if not idle or self._asked_back is not None:
            return
        spare = {node: self._spare(node) for node in self.nodes if not node.shutting_down}
        node = max(spare, key=lambda node: self._seconds(spare[node]))
        if not spare[node]:
            for each in idle:
                each.shutdown()  # the worker ends when it has run what it has
            return
        self._asked_back = node
        node.send_steal(self._second_half(spare[node]))

    def remove_pending_tests_from_node(self, node: Any, indices: Sequence[int]) -> None:
        """The worker gave these tests back, or none: it had already begun one of them."""
        self._asked_back = None
        own, back = self.node2pending[node], set(indices)
        own[:] = [number for number in own if number not in back]
        self.pending.extend(indices)
        for each in sorted(self.nodes, key=lambda each: len(self.node2pending[each])):
            self.check_schedule(each)

    def remove_node(self, node: Any) -> str | None:
        """The worker crashed or ended. Returns the node id of the test that it ran."""
        if self._asked_back is node:
            self._asked_back = None
        crashed: str | None = super().remove_node(node)
        if not self.pending:
            self._rebalance()
        return crashed

    @property
    def tests_finished(self) -> bool:
        """Whether no test is left that a worker could be given."""
        return self._asked_back is None and super().tests_finished

    def _spare(self, node: Any) -> list[int]:
        """The tests that the worker can give back: not the one that runs, and not the next one, which it has taken."""
        return self.node2pending[node][_NEEDED:]

    def _second_half(self, numbers: list[int]) -> list[int]:
        """The later half by expected seconds: whole cases, or part of one case if only that is left."""
        limit, seconds, start = self._seconds(numbers) / 2, 0.0, len(numbers)
        for place in range(len(numbers) - 1, -1, -1):
            item = self._items[numbers[place]]
            seconds += item.seconds
            if seconds > limit and start < len(numbers):
                break
            if not place or self._items[numbers[place - 1]].case != item.case:
                start = place
        return numbers[start or len(numbers) // 2 :]

    def _seconds(self, numbers: Sequence[int]) -> float:
        return sum(self._items[number].seconds for number in numbers)

    def _seconds_left(self) -> float:
        """How long each worker would take for its share of the tests that no worker has yet."""
        return self._seconds(self.pending) / max(1, len(self.nodes))

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
