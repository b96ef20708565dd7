"""benchmarks/estimate_order.py: events of a trace matched with calls, and pairs in order."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import estimate_functions
import estimate_order
from estimate_order import Row, summary, wrong_pairs
from kernel_times import Event, times, turns

CALLS = [
    {"call": "extern", "name": "mm"},
    {"call": "kernel", "function": "triton_poi_0"},
    {"call": "fallback", "name": "aten.sort"},
    {"call": "extern", "name": "bmm"},
    {"call": "kernel", "function": "triton_poi_0"},
]
ONE = [("gemm", 5.0), ("triton_poi_0", 2.0), ("sort_1", 1.0), ("sort_2", 1.0), ("bgemm", 4.0), ("triton_poi_0", 3.0)]
MARK = ("spin_kernel(long)", 0.5)
FLUSH = ("reduce_kernel", 90.0)


def trace(*turns_):
    events = []
    for cold, warm in turns_:
        events += [FLUSH, MARK, *cold, MARK, *warm, MARK]
    return [Event(*each) for each in events]


def test_the_flush_and_what_precedes_the_marks_belong_to_no_call():
    assert [[len(part) for part in pair] for pair in turns(trace((ONE, ONE[:2]), (ONE, ONE)))] == [[6, 2], [6, 6]]


def test_kernels_are_found_by_name_and_libraries_between_them():
    faster = [(name, us / 2) for name, us in ONE]
    timed, problems = times(trace((ONE, faster), (ONE, faster)), CALLS)
    assert problems == []
    assert [(each.calls, each.cold_us, each.warm_us) for each in timed] == [
        ([0], 5.0, 2.5),
        ([1], 2.0, 1.0),
        ([2, 3], 6.0, 3.0),
        ([4], 3.0, 1.5),
    ]
    assert timed[2].events == ["sort_1", "sort_2", "bgemm"]


def test_what_does_not_match_is_named():
    cold = [("gemm", 5.0), ("other", 1.0)]
    _, problems = times(trace((cold, cold)), [CALLS[1], {"call": "kernel", "function": "triton_red_1"}])
    assert problems == [
        "no event triton_poi_0",
        "no event triton_red_1",
        "2 events belong to no call, such as gemm",
    ]
    _, problems = times(trace(([], [])), CALLS[:1])
    assert problems == ["calls [0] ran nothing on the device"]


def row(cold, us):
    return Row("f", "k", "kernel", "bytes", 10, {"f32": 1}, us, cold, cold)


def test_pairs_that_differ_are_in_order_or_not():
    rows = [row(10, 5), row(11, 4), row(20, 8), row(40, 8)]
    count, wrong = wrong_pairs(rows)
    assert count == 5  # 10 and 11 are too near
    assert [(slow.cold, fast.cold) for slow, fast in wrong] == [(40, 20)]  # equal estimates order nothing
    share, lines = summary(rows)
    assert share == pytest.approx(0.8)
    assert lines[0].startswith("with an empty cache: 80.0% of 5 pairs that differ by more than 20%")


def test_a_failing_function_does_not_lose_the_others(monkeypatch, capsys):
    def measured(_generator, case, *_speeds, dry):
        if case.name == "add":
            raise RuntimeError("too large")
        return [row(1, 1)], ["no event"]

    monkeypatch.setattr(estimate_order, "measured", measured)
    cases = estimate_functions.test_add.cases + estimate_functions.test_gelu.cases
    rows, remarks = estimate_order.measure_all(cases, None, None, None, dry=False, seconds=9)
    assert len(rows) == 1
    assert "add: RuntimeError (" in remarks[0]
    assert remarks[1] == "gelu: no event"
    _, remarks = estimate_order.measure_all(cases, None, None, None, dry=False, seconds=-1)
    assert remarks == ["add: left out after -1 s", "gelu: left out after -1 s"]


def test_dry_run_estimates_without_the_device(capsys):
    assert estimate_order.main(["--dry-run", "-k", "mm_small"]) == 0
    out = capsys.readouterr().out
    assert "target cuda_sm90, device none, product H200 SXM" in out
    assert "mm_small: mm (extern)" in out
