"""How far a run is: what ended, what failed, and the time left by the durations of the last runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from conformance.harness.schedule.batches import ScheduledItem

#: With so many seconds of work done, the speed of this run counts as much as the speed of the last runs.
_PRIOR = 10.0


class Progress:
    """The state of a run. `items`: all its tests. `workers`: how many processes run them.

    `clock`: gives seconds. The speed is measured with it: workers also build kernels between the tests.
    """

    def __init__(
        self, items: Sequence[ScheduledItem], workers: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._began: float | None = None  # when the first test to end began
        self._pending = {item.node_id: item for item in items}
        self._workers = workers
        self._busy = min(workers, len(items))
        self._failed: set[str] = set()
        self.items = sum(bool(item.target) for item in items)
        self.others = len(items) - self.items
        self.ended_items = self.ended_others = 0
        self._expected_left = sum(item.seconds for item in items)
        self._expected_of_ended = self._seconds_of_ended = 0.0

    def end(self, node_id: str, seconds: float) -> None:
        """Counts a test as ended, once. `seconds`: how long it took."""
        item = self._pending.pop(node_id, None)
        if item is None:
            return
        self.ended_items += bool(item.target)
        self.ended_others += not item.target
        self._expected_left -= item.seconds
        self._expected_of_ended += item.seconds
        self._seconds_of_ended += seconds
        if self._began is None:
            self._began = self._clock() - seconds

    def fail(self, node_id: str) -> None:
        self._failed.add(node_id)

    @property
    def seconds_left(self) -> float:
        """The last durations of the tests that have not ended, corrected by how fast this run is so far."""
        on_the_clock = 0.0 if self._began is None else (self._clock() - self._began) * self._busy
        worked = max(on_the_clock, self._seconds_of_ended)  # a fresh process repeats what earlier ones ran in no time
        speed = (worked + _PRIOR) / (self._expected_of_ended + _PRIOR)
        return max(self._expected_left, 0.0) * speed / min(self._workers, max(len(self._pending), 1))

    @property
    def suffix(self) -> str:
        """Returns ", 3 failed, 4 min left": it follows pytest's own percentage."""
        failed = f", {len(self._failed):,} failed" if self._failed else ""
        return f"{failed}, {_short(self.seconds_left)} left" if self._pending else failed

    @property
    def line(self) -> str:
        """Returns "3,410 of 10,416 items, 2 failed, about 6 minutes left".

        When only other tests are left: "10,416 items and 3 of 154 other tests".
        """
        failed = f", {len(self._failed):,} failed" if self._failed else ""
        left = f", about {_in_words(self.seconds_left)} left" if self._pending else ""
        counts = f"{self.ended_items:,} of {self.items:,} items"
        if self.ended_items == self.items and self._pending:
            counts = f"{self.items:,} items and {self.ended_others:,} of {self.others:,} other tests"
        return f"{counts}{failed}{left}"


def _short(seconds: float) -> str:
    if seconds < 90:
        return f"{_tens(seconds)} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def _in_words(seconds: float) -> str:
    if seconds < 90:
        return f"{_tens(seconds)} seconds"
    minutes = round(seconds / 60)
    return f"{minutes} minutes" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def _tens(seconds: float) -> int:
    """Whole tens: an estimate is not more exact."""
    return max(10, round(seconds / 10) * 10)
