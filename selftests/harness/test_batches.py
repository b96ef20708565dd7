"""Batches: contiguous, of one file, with all targets of a case; smaller for slow cases and for few items."""

from __future__ import annotations

from itertools import chain

import pytest

from conformance.harness.schedule.batches import (
    DEFAULT_SECONDS,
    MAX_CASES,
    MAX_SECONDS,
    batches,
    longest_first,
    scheduled_items,
    split_node_id,
)

TARGETS = ("cpu_avx2", "cuda_sm90", "xpu_bmg")


def node_ids(file: str, cases: int, targets: tuple[str, ...] = TARGETS) -> list[str]:
    return [f"ops/{file}.py::test_it[{case}-f32-{target}]" for case in range(cases) for target in targets]


@pytest.mark.parametrize(
    ("node_id", "expected"),
    [
        ("ops/a.py::test_x[f32-8x9-cuda_sm90]", ("ops/a.py", "ops/a.py::test_x[f32-8x9]", "cuda_sm90")),
        ("ops/a.py::test_x[cpu_avx2]", ("ops/a.py", "ops/a.py::test_x[]", "cpu_avx2")),
        ("ops/a.py::test_x[xpu_local]", ("ops/a.py", "ops/a.py::test_x[]", "xpu_local")),
        ("ops/a.py::test_story_why", ("ops/a.py", "ops/a.py::test_story_why", "")),
        ("ops/a.py::test_x[a-b]", ("ops/a.py", "ops/a.py::test_x[a-b]", "")),
    ],
)
def test_the_parts_of_a_node_id(node_id, expected):
    assert split_node_id(node_id) == expected


@pytest.mark.parametrize("workers", [1, 2, 7, 100])
@pytest.mark.parametrize("slow", [{}, {node_ids("b", 40)[17]: 1000.0}])
def test_every_test_is_in_one_batch(workers, slow):
    names = [*node_ids("a", 5), *node_ids("b", 40), "ops/b.py::test_story", *node_ids("c", 1)]
    items = scheduled_items(names, slow)
    divided = batches(items, workers)
    assert list(chain.from_iterable(batch.items for batch in divided)) == items
    assert [number for batch in divided for number in batch.numbers] == list(range(len(names)))
    for batch in divided:
        assert len({item.file for item in batch.items}) == 1
        assert len({item.case for item in batch.items}) <= MAX_CASES
        for item in batch.items:
            others = [each for each in items if each.case == item.case]
            assert set(others) <= set(batch.items), "a case's targets share work"
    assert divided == batches(scheduled_items(list(names), dict(slow)), workers)


def test_batches_of_a_file_have_nearly_the_same_size():
    sizes = [len(batch.items) // 3 for batch in batches(scheduled_items(node_ids("a", 50), {}), 1)]
    assert sizes == [17, 17, 16]


def test_slow_cases_make_small_batches():
    names = node_ids("a", 24, ("cpu_avx2",))
    assert [len(batch.items) for batch in batches(scheduled_items(names, {}), 1)] == [24]
    quarter = dict.fromkeys(names, MAX_SECONDS / 4)
    assert [len(batch.items) for batch in batches(scheduled_items(names, quarter), 1)] == [4] * 6
    hour = {names[3]: 3600.0} | dict.fromkeys(names[:3] + names[4:], 1.0)
    assert [len(batch.items) for batch in batches(scheduled_items(names, hour), 1)] == [3, 1, 20]


def test_few_items_are_shared_among_workers():
    items = scheduled_items(node_ids("a", 24), {})
    assert [len(batch.items) // 3 for batch in batches(items, 2)] == [4] * 6
    assert len(batches(items, 50)) == 24
    assert batches([], 4) == []


def test_smaller_batches_in_a_first_run():
    """Nothing says that a batch does not take long."""
    names = node_ids("a", 1300)
    first = batches(scheduled_items(names, {}), 16)
    later = batches(scheduled_items(names, dict.fromkeys(names, 0.5)), 16)
    assert [max(len(batch.items) // 3 for batch in divided) for divided in (first, later)] == [6, 24]


def test_the_longest_batch_comes_first():
    names = [*node_ids("a", 2), *node_ids("b", 1), *node_ids("c", 2)]
    known = dict.fromkeys(node_ids("b", 1), 9.0) | dict.fromkeys((*node_ids("a", 2), *node_ids("c", 2)), 1.0)
    divided = longest_first(batches(scheduled_items(names, known), 1))
    assert [batch.items[0].file for batch in divided] == ["ops/b.py", "ops/a.py", "ops/c.py"]


def test_durations_of_unknown_tests():
    """The median of the function's target, then of the file's target, then of the target, then of all items."""
    known = {
        "a.py::test_x[1-cuda_sm90]": 1.0,
        "a.py::test_x[2-cuda_sm90]": 2.0,
        "a.py::test_x[3-cuda_sm90]": 30.0,
        "a.py::test_y[1-cuda_sm90]": 8.0,
        "b.py::test_x[1-cpu_avx2]": 40.0,
        "b.py::test_x[2-cpu_avx2]": 44.0,
    }
    unknown = {
        "a.py::test_x[4-cuda_sm90]": 2.0,
        "a.py::test_z[1-cuda_sm90]": 5.0,
        "a.py::test_x[4-cpu_avx2]": 42.0,
        "c.py::test_x[1-xpu_bmg]": 19.0,
        "a.py::test_that_is_no_item": DEFAULT_SECONDS,
    }
    names = [*known, *unknown]
    assert {item.node_id: item.seconds for item in scheduled_items(names, known)} == known | unknown
    assert scheduled_items(["c.py::test_x"], {})[0].seconds == DEFAULT_SECONDS
