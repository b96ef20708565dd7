"""The scheduler: simulated workers run tests of known durations. All end at about the same time, crashes included."""

from __future__ import annotations

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
        self.shutting_down = False
        self.free_at = 0.0

    def send_runtest_some(self, numbers: list[int]) -> None:
        assert not self.shutting_down
        self.queue += numbers
        self.parts.append(list(numbers))

    def shutdown(self) -> None:
        self.shutting_down = True

    @property
    def can_run(self) -> bool:
        return len(self.queue) > 1 or (self.shutting_down and bool(self.queue))


class Simulation:
    """`seconds`: node id → how long the test takes, and how long it took last."""

    def __init__(self, seconds: dict[str, float], workers: int) -> None:
        self.names, self.seconds = list(seconds), seconds
        config = SimpleNamespace(
            getoption=lambda _name: None, getvalue=lambda name: {"tx": ["popen"] * workers}[name], hook=None
        )
        self.scheduler = BatchScheduling(config, None, lambda names: batches(scheduled_items(names, seconds), workers))
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
        self.now = worker.free_at = self._end(worker)
        number = worker.queue.pop(0)
        self.ran.append(self.names[number])
        self.scheduler.mark_test_complete(worker, number, 0)
        return worker

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


def varied(cases: int) -> dict[str, float]:
    """Durations from 0.1 to 3.1 s, and some of 20 s."""
    names = [*node_ids("a", cases), *node_ids("b", cases), *node_ids("c", cases)]
    return {name: 20.0 if number % 97 == 0 else 0.1 + number % 13 / 4 for number, name in enumerate(names)}


@pytest.mark.parametrize("workers", [1, 2, 3, 16])
@pytest.mark.parametrize("cases", [1, 2, 9, 200])
def test_all_tests_run_once(workers, cases):
    simulation = Simulation(varied(cases), workers)
    simulation.run()
    assert sorted(simulation.ran) == sorted(simulation.names)


@pytest.mark.parametrize("workers", [2, 3, 16])
def test_no_worker_works_alone_for_long(workers):
    simulation = Simulation(varied(200), workers)
    simulation.run()
    ends = [worker.free_at for worker in simulation.workers]
    ideal = sum(simulation.seconds.values()) / workers
    assert max(ends) < ideal + 21, "the longest test takes 20 s"
    assert max(ends) - min(ends) < 21


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
