"""How far a run is: what ended, what failed, and the time left.

The time left is the expected seconds of what has not ended, corrected by how fast this run is so far. Both are kept by
kind, because kinds differ much: code for another GPU of the same type is often the same and takes no time, and a cold
run builds the kernels of a whole batch before the batch's first test.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Sequence

from conformance.harness.schedule.batches import Batch, ScheduledItem, batches

#: With so many expected seconds of work done, the speed of this run counts as much as what was expected.
_PRIOR = 10.0
#: The same for the work between tests, as a share of all of it that is expected.
_PRIOR_SHARE = 0.05
#: Work counts half as soon as so many expected seconds of its kind follow it: a run may become slower or faster.
_HALF = 25.0
#: A case with gradients takes so many times as long.
_BACKWARD, _BACKWARD_FACTOR = "backward", 2.5
#: Kind of a test → its seconds where no duration is known: those of a run without caches.
_NATIVE, _SHARED, _ALONE, _OTHER = "native", "shared", "alone", "other test"
_UNKNOWN_SECONDS = {_NATIVE: 0.4, _SHARED: 0.1, _ALONE: 1.2, _OTHER: 0.5}
#: Between the tests: what a worker does for a native test when it begins the test's batch, and for any test.
_AHEAD_SECONDS, _BETWEEN_SECONDS = 1.5, 0.004
#: Before its first test, a worker imports torch and its compiler; for code that runs on the CPU, it waits for headers.
_IMPORT_SECONDS, _HEADERS_SECONDS = 7.0, 9.0
#: So much of the start counts for the speed of the run: most of it is one wait for the C++ compiler.
_START_SHARE = 0.1


class _Speed:
    """The seconds that some work took, by the seconds that were expected."""

    def __init__(self, prior: float = _PRIOR) -> None:
        self._prior = prior  # so many seconds count as if they had been done as fast as expected
        self.expected = self.taken = 0.0

    def add(self, expected: float, taken: float) -> None:
        kept = 0.5 ** (expected / _HALF)
        self._prior *= kept
        self.expected = self.expected * kept + expected
        self.taken = self.taken * kept + taken

    def factor(self, otherwise: float = 1.0) -> float:
        """How many times longer than expected. `otherwise`: what counts as long as little or nothing is done."""
        weight = self.expected + self._prior
        return (self.taken + self._prior * otherwise) / weight if weight else otherwise


class Progress:
    """The state of a run. `items`: all its tests. `workers`: how many processes run them.

    `clock`: gives seconds. The time between the tests is measured with it: there, workers build kernels.
    `native`: the cpu targets whose code runs here; None if the durations of the last runs say all. `is_known`: whether
    there are such durations.
    """

    def __init__(
        self,
        items: Sequence[ScheduledItem],
        workers: int,
        clock: Callable[[], float] = time.monotonic,
        native: Collection[str] | None = None,
        *,
        is_known: bool = True,
    ) -> None:
        self._clock, self._is_known = clock, is_known
        self._began = clock()
        self._pending = {item.node_id: item for item in items}
        self._workers = workers
        self._busy = min(workers, len(items))
        self._failed: set[str] = set()
        self.items = sum(bool(item.target) for item in items)
        self.others = len(items) - self.items
        self.ended_items = self.ended_others = 0
        self._kind = _kinds(items, native or ())
        self._expected = {
            item.node_id: item.seconds if is_known else _UNKNOWN_SECONDS[self._kind[item.node_id]] * _size(item)
            for item in items
        }
        self._expected_left: defaultdict[Hashable, float] = defaultdict(float)
        for item in items:
            self._expected_left[self._group(item)] += self._expected[item.node_id]
        self._speed: defaultdict[Hashable, _Speed] = defaultdict(_Speed)
        self._running: dict[str, float] = {}  # node id → when it began
        self._seconds_of_ended = 0.0
        plan = batches(items, workers)
        self._batch = {item.node_id: batch for batch in plan for item in batch.items}
        self._begun: set[int] = set()  # the first numbers of batches
        runs_code = any(kind == _NATIVE for kind in self._kind.values())
        self._start = 0.0 if native is None else self._busy * (_IMPORT_SECONDS + _HEADERS_SECONDS * runs_code)
        self._between_left = sum(map(self._between, plan))
        self._between_done = 0.0
        self._start_taken = 0.0  # with the work before the first test of each worker; 0 until a test ends

    def _group(self, item: ScheduledItem) -> Hashable:
        """The tests of a group have a speed in common."""
        return self._kind[item.node_id], _size(item)

    def _between(self, batch: Batch) -> float:
        """The seconds that a worker is expected to work for a batch between its tests."""
        native = sum(_size(item) for item in batch.items if self._kind[item.node_id] == _NATIVE)
        return native * _AHEAD_SECONDS + len(batch.items) * _BETWEEN_SECONDS

    def begin(self, node_id: str) -> None:
        """Notes that a test runs: its time is no time between the tests, also before it ends."""
        self._running[node_id] = self._clock()

    def end(self, node_id: str, seconds: float) -> None:
        """Counts a test as ended, once. `seconds`: how long it took."""
        self._running.pop(node_id, None)
        item = self._pending.pop(node_id, None)
        if item is None:
            return
        self.ended_items += bool(item.target)
        self.ended_others += not item.target
        kind, expected = self._group(item), self._expected[node_id]
        self._expected_left[kind] -= expected
        self._speed[kind].add(expected, seconds)
        self._seconds_of_ended += seconds
        batch = self._batch[node_id]
        if not self._begun:
            self._start_taken = max(0.0, (self._clock() - self._began) * self._busy - seconds)
        if batch.first not in self._begun:
            self._between_left -= self._between(batch)
            if self._start and len(self._begun) < self._busy:  # the start is over with these
                self._start += self._between(batch)
            else:
                self._between_done += self._between(batch)
            self._begun.add(batch.first)

    def fail(self, node_id: str) -> None:
        self._failed.add(node_id)

    @property
    def seconds_left(self) -> float:
        """The expected seconds of the tests that have not ended, corrected by how fast this run is so far."""
        now = self._clock()
        on_the_clock = (now - self._began) * self._busy
        in_tests = self._seconds_of_ended + sum(now - began for began in self._running.values())
        prior = (self._between_left + self._between_done) * _PRIOR_SHARE
        between = _Speed(prior if self._is_known else prior + _PRIOR)
        # a fresh process repeats what earlier ones ran in no time
        between.add(self._between_done, max(on_the_clock - self._start_taken - in_tests, 0.0))
        speeds = (between, *self._speed.values())
        taken = self._start_taken * _START_SHARE + sum(each.taken for each in speeds)
        expected = (self._start * _START_SHARE if self._begun else 0.0) + sum(each.expected for each in speeds)
        factor = (taken + _PRIOR) / (expected + _PRIOR)
        left = sum(
            max(each, 0.0) * self._believed(self._speed[group].factor(factor), factor)
            for group, each in self._expected_left.items()
        )
        left += max(self._between_left, 0.0) * between.factor(factor)
        left += 0.0 if self._begun else max(self._start - on_the_clock, 0.0)
        return left / min(self._workers, max(len(self._pending), 1))

    def _believed(self, factor: float, overall: float) -> float:
        """Without durations, believes only half that tests are faster than all so far: simple ones come first."""
        return factor if self._is_known or factor > overall else (factor + overall) / 2

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


def _size(item: ScheduledItem) -> float:
    return _BACKWARD_FACTOR if _BACKWARD in item.case else 1.0


def _kinds(items: Sequence[ScheduledItem], native: Collection[str]) -> dict[str, str]:
    """Node id → the kind of the test."""
    kinds: dict[str, str] = {}
    seen: set[tuple[str, str, str]] = set()  # file, case and device of a test whose code others may share
    for item in items:
        device = item.target.partition("_")[0]
        key = (item.file, item.case, device)
        if not item.target:
            kind = _OTHER
        elif device == "cpu":
            kind = _NATIVE if item.target in native else _ALONE
        else:
            kind = _SHARED if key in seen else _ALONE
        seen.add(key)
        kinds[item.node_id] = kind
    return kinds


def _short(seconds: float) -> str:
    """Whole tens of seconds, else minutes: an estimate is not more exact."""
    minutes = round(seconds / 60)
    if seconds < 90:
        return f"{max(10, round(seconds / 10) * 10)} s"
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def _in_words(seconds: float) -> str:
    number, unit = _short(seconds).split(" ", 1)
    return f"{number} {({'s': 'seconds', 'min': 'minutes'}).get(unit, unit)}"
