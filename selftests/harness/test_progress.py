"""The texts of the progress, and the estimate of the time left."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from test_batches import node_ids

from conformance.harness.schedule.batches import ScheduledItem, scheduled_items
from conformance.harness.schedule.progress import Progress


class Clock:
    """Stands still until it is moved."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def progress(seconds: float, cases: int = 4000, workers: int = 2, clock: Clock | None = None) -> Progress:
    """Each test took `seconds` in the last run."""
    names = [*node_ids("a", cases), "ops/a.py::test_story"]
    return Progress(scheduled_items(names, dict.fromkeys(names, seconds)), workers, clock or Clock())


def end(run: Progress, clock: Clock, names: list[str], seconds: float) -> None:
    """Two workers run the tests, each in `seconds`."""
    for name in names:
        clock.now += seconds / 2
        run.end(name, seconds)


def test_a_run_as_fast_as_the_last_one():
    clock = Clock()
    run = progress(0.1, clock=clock)
    assert run.line == "0 of 12,000 items, about 10 minutes left"
    end(run, clock, node_ids("a", 1000), 0.1)
    run.fail("ops/a.py::test_it[0-f32-cpu_avx2]")
    run.fail("ops/a.py::test_it[0-f32-cpu_avx2]")
    assert run.line == "3,000 of 12,000 items, 1 failed, about 8 minutes left"
    assert run.suffix == ", 1 failed, 8 min left"


@pytest.mark.parametrize(("factor", "left"), [(5.0, 2100), (0.2, 100)])
def test_the_speed_of_this_run_counts(factor, left):
    """Such as with a cold cache, or with a warm one."""
    clock = Clock()
    run = progress(0.1, clock=clock)
    end(run, clock, node_ids("a", 1000), 0.1 * factor)
    assert run.seconds_left == pytest.approx(left, rel=0.2)


def test_work_between_the_tests_counts():
    """Such as kernels that a worker builds for a batch of tests."""
    clock = Clock()
    run = progress(0.1, clock=clock)
    for name in node_ids("a", 1000):
        clock.now += 0.25  # the two workers together need 0.5 s for each test
        run.end(name, 0.1)
    assert run.seconds_left == pytest.approx(2100, rel=0.2)


def test_a_long_test_that_runs_is_no_work_between_tests():
    clock = Clock()
    run = progress(0.1, clock=clock)
    names = node_ids("a", 1000)
    end(run, clock, names[:300], 0.1)
    before = run.seconds_left
    for name in names[300:302]:
        run.begin(name)
    clock.now += 60
    assert run.seconds_left == pytest.approx(before, rel=0.01)


def test_what_a_fresh_process_repeats_counts_with_its_time():
    """It repeats the reports of earlier processes in no time."""
    run = progress(0.1, workers=1)
    for name in node_ids("a", 1000):
        run.end(name, 0.5)
    assert run.seconds_left == pytest.approx(4500, rel=0.2)


#: Node id, when the test ended, and its seconds, in the order of collection: test_pool.py with two workers and empty
#: caches. Other work shared the cores, so these are the CPU seconds of the tests, and of what lies between them.
#: The table of seconds in progress.py was chosen with this run: other runs are further off.
COLD_RUN = json.loads((Path(__file__).parents[1] / "samples/cold-run-of-pooling.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("share", "limit"), [(0.1, 1.5), (0.5, 1.75), (0.9, 1.5)])
@pytest.mark.parametrize("slowness", [1.0, 1.5])
def test_the_time_left_of_a_cold_run(share, limit, slowness):
    """Without durations of earlier runs. `slowness`: of the machine."""
    clock = Clock()
    began, end = clock.now, max(ended for _, ended, _ in COLD_RUN) * slowness
    items = scheduled_items([node_id for node_id, _, _ in COLD_RUN], {})
    run = Progress(items, 2, clock, {"cpu_avx2"}, is_known=False)
    said = {}
    for node_id, ended, seconds in sorted(COLD_RUN, key=lambda test: test[1]):
        clock.now = began + ended * slowness
        run.end(node_id, seconds * slowness)
        said[ended * slowness] = run.seconds_left
    now = min(said, key=lambda ended: abs(ended - share * end))
    assert 1 / limit < said[now] / (end - now) < limit


def test_work_ahead_of_a_batch_is_over_with_its_first_test():
    """Two batches of the same tests, each with kernels that are built before its first test."""
    clock = Clock()
    names = [name for file in "ab" for name in node_ids(file, 4)]
    run = Progress(scheduled_items(names, {}), 1, clock, {"cpu_avx2"}, is_known=False)
    before = run.seconds_left
    clock.now += 22.4  # as expected: imports and headers 16 s, 4 kernels 6 s, and the test
    run.end(names[0], 0.4)
    assert before - run.seconds_left == pytest.approx(22.4, abs=1.0)
    left = run.seconds_left
    clock.now += 0.4
    run.end(names[3], 0.4)
    assert left - run.seconds_left < 1.0


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("native", [None, (), ("cpu_avx2",)], ids=str)
@pytest.mark.parametrize("seconds", [0.0, 1e-9, 1e6])
@pytest.mark.parametrize("targets", [("",), ("cuda_sm90",), ("cpu_avx2", "cuda_sm80", "cuda_sm90", "")], ids=str)
def test_the_time_left_is_a_number_at_any_speed(targets, seconds, native, is_known):
    names = [(f"f.py::test[{number}-{target}]", target) for number in range(30) for target in targets]
    items = [ScheduledItem(name, "f.py", name, target, seconds) for name, target in names]
    progress = Progress(items, 2, iter(range(1000)).__next__, native, is_known=is_known)
    for item in items:
        assert 0 <= progress.seconds_left < float("inf")
        progress.end(item.node_id, seconds)
    assert progress.seconds_left == pytest.approx(0, abs=1e-6)


def test_a_test_counts_once():
    run = progress(1.0, cases=2)
    run.end("ops/a.py::test_story", 1.0)
    assert run.ended_items == 0, "an explanation is no item"
    for _ in range(2):
        run.end("ops/a.py::test_it[0-f32-cpu_avx2]", 1.0)
    run.end("ops/a.py::test_unknown", 1.0)
    assert (run.ended_items, run.items) == (1, 6)


def test_no_worker_shares_the_last_test():
    run = progress(60.0, cases=1, workers=16)
    for name in ("ops/a.py::test_story", *node_ids("a", 1)[:-1]):
        run.end(name, 60.0)
    assert 55 < run.seconds_left < 85, "not a sixteenth of it"
    run.end(node_ids("a", 1)[-1], 60.0)
    assert (run.line, run.suffix) == ("3 of 3 items", "")


def test_other_tests_are_left():
    run = progress(0.1, cases=1)
    for name in node_ids("a", 1):
        run.end(name, 0.1)
    assert run.line == "3 items and 0 of 1 other tests, about 10 seconds left"


@pytest.mark.parametrize(
    ("seconds", "short", "words"),
    [
        (0.1, "10 s", "10 seconds"),
        (44, "40 s", "40 seconds"),
        (89, "90 s", "90 seconds"),
        (100, "2 min", "2 minutes"),
        (5300, "88 min", "88 minutes"),
        (7500, "2 h 5 min", "2 h 5 min"),
    ],
)
def test_times(seconds, short, words):
    run = Progress(scheduled_items(["a.py::test_x[cpu_avx2]"], {"a.py::test_x[cpu_avx2]": seconds}), 1)
    assert (run.suffix, run.line) == (f", {short} left", f"0 of 1 items, about {words} left")
