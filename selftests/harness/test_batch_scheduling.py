"""The scheduler: simulated workers run tests of known durations. All end at about the same time, crashes included."""

from __future__ import annotations

from collections import defaultdict
from itertools import chain
from types import SimpleNamespace

import pytest
from test_batches import node_ids

from conformance.harness.schedule.batch_scheduling import BatchScheduling
from conformance.harness.schedule.batches import batches, scheduled_items


class Worker:
    """A worker of pytest-xdist: runs a test when it knows the next one, or that there is none."""

    def __init__(self, name: str) -> None:
        self.gateway = SimpleNamespace(id=name)
        self.queue: list[int] = []
        self.parts: list[list[int]] = []
        self.asked: list[int] | None = None  # the tests that it is asked to give back
        self.shutting_down = False
        self.free_at = 0.0

    def send_runtest_some(self, numbers: list[int]) -> None:
        assert not self.shutting_down
        self.queue += numbers
        self.parts.append(list(numbers))

    def send_steal(self, numbers: list[int]) -> None:
        assert self.asked is None, "pytest-xdist allows one request"
        self.asked = list(numbers)

    def give_back(self) -> list[int]:
        """As pytest-xdist: all of the tests, or none if the worker has taken one of them."""
        asked, self.asked = self.asked, None
        if not set(asked) <= set(self.queue[2:]):
            return []
        self.queue = [number for number in self.queue if number not in asked]
        return asked

    def shutdown(self) -> None:
        self.shutting_down = True

    @property
    def can_run(self) -> bool:
        return len(self.queue) > 1 or (self.shutting_down and bool(self.queue))


class Simulation:
    """`seconds`: node id → how long the test takes. `expected`: how long it took last, if that differs.

    `late_answers`: a worker that is asked to give tests back answers when it has run another test.
    """

    def __init__(
        self,
        seconds: dict[str, float],
        workers: int,
        expected: dict[str, float] | None = None,
        *,
        late_answers: bool = False,
    ) -> None:
        self.names, self.seconds, self.late_answers = list(seconds), seconds, late_answers
        known = seconds if expected is None else expected
        config = SimpleNamespace(
            getoption=lambda _name: None, getvalue=lambda name: {"tx": ["popen"] * workers}[name], hook=None
        )
        self.scheduler = BatchScheduling(config, None, lambda names: batches(scheduled_items(names, known), workers))
        self.scheduler.log = lambda *_: None
        self.workers = [self.add(f"gw{number}") for number in range(workers)]
        self.ran: list[str] = []
        self.now = 0.0
        self.scheduler.schedule()

    def add(self, name: str) -> Worker:
        worker = Worker(name)
        self.scheduler.add_node(worker)
        self.scheduler.add_node_collection(worker, self.names)
        return worker

    def step(self) -> Worker:
        """The next test ends."""
        worker = min((each for each in self.workers if each.can_run), key=self._end)
        for each in self.workers:  # a worker that waited starts no earlier than what it got
            if not each.can_run:
                each.free_at = max(each.free_at, self.now)
        self.now = worker.free_at = self._end(worker)
        number = worker.queue.pop(0)
        self.ran.append(self.names[number])
        self.scheduler.mark_test_complete(worker, number, 0)
        self._answer(worker)
        return worker

    def _answer(self, ended: Worker | None = None) -> None:
        """Workers give back what they are asked for. `ended`: the worker that has just run a test."""
        while asked := [each for each in self.workers if each.asked and (not self.late_answers or each is ended)]:
            for worker in asked:
                self.scheduler.remove_pending_tests_from_node(worker, worker.give_back())

    def _end(self, worker: Worker) -> float:
        return worker.free_at + self.seconds[self.names[worker.queue[0]]]

    def crash(self, worker: Worker) -> str:
        """The worker crashes in the test that runs; a new one replaces it. Returns the node id."""
        item = self.scheduler.remove_node(worker)
        self.workers.remove(worker)
        replacement = self.add(f"{worker.gateway.id}-again")
        replacement.free_at = self.now
        self.workers.append(replacement)
        self.scheduler.schedule()
        return item

    def run(self) -> None:
        while any(worker.can_run for worker in self.workers):
            self.step()
        assert not self.scheduler.has_pending, "a worker waits for ever"
        assert self.scheduler.tests_finished


def one_slow_batch() -> tuple[dict[str, float], dict[str, float]]:
    """A first run: all are expected to take the same, and 18 tests of one batch take ten times longer."""
    names = [*node_ids("a", 192), *node_ids("b", 192)]
    slow = names[-18:]
    return {name: 10.0 if name in slow else 0.5 for name in names}, {}


def varied(cases: int) -> dict[str, float]:
    """Durations from 0.1 to 3.1 s, and some of 20 s."""
    names = [*node_ids("a", cases), *node_ids("b", cases), *node_ids("c", cases)]
    return {name: 20.0 if number % 97 == 0 else 0.1 + number % 13 / 4 for number, name in enumerate(names)}


@pytest.mark.parametrize("workers", [1, 2, 3, 16, 64])
@pytest.mark.parametrize("cases", [1, 2, 9, 200])
def test_all_tests_run_once(workers, cases):
    simulation = Simulation(varied(cases), workers)
    simulation.run()
    assert sorted(simulation.ran) == sorted(simulation.names)


@pytest.mark.parametrize("workers", [2, 3, 16, 64])
def test_no_worker_works_alone_for_long(workers):
    simulation = Simulation(varied(200), workers)
    simulation.run()
    ends = [worker.free_at for worker in simulation.workers]
    ideal = sum(simulation.seconds.values()) / workers
    assert max(ends) < ideal + 21, "the longest test takes 20 s"
    assert max(ends) - min(ends) < 21


@pytest.mark.parametrize("late_answers", [False, True])
def test_a_slow_batch_is_divided_when_others_have_nothing_left(late_answers):
    seconds, expected = one_slow_batch()
    simulation = Simulation(seconds, 8, expected, late_answers=late_answers)
    simulation.run()
    assert sorted(simulation.ran) == sorted(simulation.names)
    ideal = sum(seconds.values()) / 8
    assert max(worker.free_at for worker in simulation.workers) < ideal + 31, "three of the slow tests"


def test_a_case_stays_with_one_worker_if_it_can():
    seconds, expected = one_slow_batch()
    simulation = Simulation(seconds, 8, expected)
    simulation.run()
    workers = defaultdict(set)
    for worker in simulation.workers:
        for number in chain.from_iterable(worker.parts):
            workers[simulation.names[number].rpartition("-")[0]].add(worker)
    assert len(workers) == 384
    assert sum(len(each) > 1 for each in workers.values()) <= 24


@pytest.mark.parametrize("late_answers", [False, True])
@pytest.mark.parametrize("after", range(1, 420, 23))
def test_a_crash_while_tests_are_given_back(after, late_answers):
    seconds, expected = one_slow_batch()
    simulation = Simulation(seconds, 8, expected, late_answers=late_answers)
    crashed = []
    for number in range(1152):
        if not any(worker.can_run for worker in simulation.workers):
            break
        busy = [worker for worker in simulation.workers if worker.queue]
        if number > 700 and number % after == 0 and busy:
            asked = [worker for worker in busy if worker.asked]
            crashed.append(simulation.crash((asked or busy)[0]))
        else:
            simulation.step()
    simulation.run()
    assert sorted([*simulation.ran, *crashed]) == sorted(simulation.names)


def test_whole_batches_first_and_parts_at_the_end():
    seconds = dict.fromkeys([*node_ids("a", 96), *node_ids("b", 96)], 1.0)
    simulation = Simulation(seconds, 2)
    simulation.run()
    for worker in simulation.workers:
        sizes = [len(part) for part in worker.parts]
        assert sizes[:2] == [72, 72], "24 cases on 3 targets"
        assert sizes[-1] <= 3
        for part in worker.parts:
            assert part == list(range(part[0], part[0] + len(part))), "a part follows the order of collection"


def test_the_longest_batch_begins_first():
    seconds = dict.fromkeys(node_ids("a", 24), 1.0) | dict.fromkeys(node_ids("b", 24), 2.0)
    simulation = Simulation(seconds, 2)
    assert {simulation.names[worker.parts[0][0]].partition("::")[0] for worker in simulation.workers} == {"ops/b.py"}


@pytest.mark.parametrize("after", [0, 1, 5, 30, 53])
def test_a_crash(after):
    """The test that ran is reported. A worker that replaces the crashed one, or another worker, runs the others."""
    simulation = Simulation(varied(6), 2)
    for _ in range(after):
        simulation.step()
    crashed = simulation.crash(next(worker for worker in simulation.workers if worker.queue))
    simulation.run()
    assert sorted([*simulation.ran, crashed]) == sorted(simulation.names)


def test_a_test_that_had_not_begun_when_its_worker_crashed():
    simulation = Simulation(varied(6), 2)
    crashed = simulation.crash(simulation.workers[0])
    simulation.scheduler.mark_test_pending(crashed)
    simulation.run()
    assert sorted(simulation.ran) == sorted(simulation.names)
