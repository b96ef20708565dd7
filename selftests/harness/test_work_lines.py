"""The check "work": what a run says of its compiles, and which causes it has beside a baseline run."""

from __future__ import annotations

import re

import pytest
import schemas
from suites import run_python

from conformance.harness.ending.work_lines import work_lines
from conformance.review.overview import headline, summary_lines
from conformance.review.review import Previous, review_items
from conformance.storage.runs import ItemRecord

SOURCE = """
from conformance import case, tensor

@case(x=tensor(8, 30))
def test_it(x):
    return {}
"""


def record(name, calls, scheduling, memory):
    values = {"compile_work": calls, "compile_work.scheduling": scheduling, "compile_work.nodes": 3, "memory": memory}
    return ItemRecord(name, "cuda_sm90", "deviceless", "2.13.0", "", text="kernels  1\n", fact_values=values)


UNCOUNTED = ItemRecord("a", "cuda_sm90", "deviceless", "2.13.0", "", text="kernels  1\n")


def compared(now, before):
    records = {each.name: Previous(each.text, "run old", each.fact_values) for each in before}
    return review_items(now, lambda item: records.get(item.name))


def lines(now, before):
    return list(work_lines(now, compared(now, before or []), "" if before is None else "old"))


def test_what_became_more_and_of_what():
    before = [record("a", 1000, 100, 4096), record("b", 3000, 300, 4096), record("c", 500, 10, 8)]
    now = [record("a", 1200, 300, 8192), record("b", 3000, 300, 2048), record("d", 1, 1, 1)]
    assert lines(now, before) == ["compile work: 4,201 calls of Python functions in 3 items"]
    assert summary_lines(compared(now, before)) == [
        "the costs of 2 items changed:",
        "  1  compile work +5.0 %, of it scheduling +50.0 %  (1 item: 1 case, on cuda_sm90)",
        "       a-cuda_sm90  1,000 → 1,200 calls",
        "  2  memory: more bytes at the peak  (1 item: 1 case, on cuda_sm90)",
        "       a-cuda_sm90  4,096 → 8,192 bytes",
        "  3  memory: fewer bytes at the peak  (1 item: 1 case, on cuda_sm90)",
        "       b-cuda_sm90  4,096 → 2,048 bytes",
    ]


def test_the_items_that_changed_most_come_first():
    before = [record("a", 9000, 100, 8), record("b", 1000, 100, 8), record("c", 1000, 100, 0), record("d", 900, 90, 8)]
    now = [record("a", 9900, 100, 9), record("b", 1500, 100, 80), record("c", 1000, 100, 4), record("d", 900, 90, 8)]
    work, memory = compared(now, before).causes[::-1]
    assert [each.case for each in work.members] == ["b", "a"]
    assert [each.case for each in memory.members] == ["b", "c", "a"]


def test_an_item_that_changed_is_found_where_the_sum_did_not():
    """A change of 1 % of one item is none."""
    before = [record("a", 2000, 100, 8), record("b", 2000, 100, 8)]
    (cause,) = compared([record("a", 2100, 200, 8), record("b", 1900, 0, 8)], before).causes
    assert (cause.title, len(cause.members)) == ("compile work +0.0 %", 2)
    assert not compared([record("a", 2020, 100, 8), record("b", 1980, 100, 8)], before).causes


def test_texts_and_costs_in_one_line():
    before, now = [record("a", 1000, 100, 8)], [record("a", 2000, 100, 8)]
    now[0].text = "kernels  2\n"
    review = compared(now, before)
    assert headline(review) == (
        "1 text of 1 case differs from run old by 1 cause; no fact changed; the costs of 1 item changed:"
    )
    assert review.causes_of == {"a-cuda_sm90": [1, 2]}


@pytest.mark.parametrize(
    ("before", "last"),
    [
        (None, "compile work: 1,000 calls of Python functions in 1 item"),
        ([record("a", 1000, 100, 4096)], "compile work: as in the run old"),
        ([UNCOUNTED], "the run old counted nothing: give it --checks work"),
    ],
)
def test_nothing_to_compare(before, last):
    assert lines([record("a", 1000, 100, 4096)], before)[-1] == last


def test_the_functions_that_are_called_more():
    """One side names C.c alone: on the other it has as many calls as the last there, at most."""
    before, now = record("a", 100_000, 100, 8), record("a", 104_000, 100, 8)
    before.fact_values["compile_work.functions"] = {"torch/a.py: a": 5000, "torch/b.py: b": 900}
    now.fact_values["compile_work.functions"] = {"torch/a.py: a": 7000, "torch/c.py: C.c": 2900, "torch/b.py: b": 850}
    assert summary_lines(compared([now], [before]))[-2:] == [
        "       with it, in 1 item: torch/a.py: a +2,000 calls",
        "       with it, in 1 item: torch/c.py: C.c +2,000 calls",
    ]


def test_a_run_without_the_check_says_nothing():
    assert not lines([UNCOUNTED], None)


def test_a_run_and_its_baseline(tmp_path):
    """A second run of the same code counts the same; other code is named, with its memory."""
    words = ("-m", "pytest", "test_mine.py", "--target", "cuda_sm90", "--checks", "work")
    (tmp_path / "test_mine.py").write_text(SOURCE.format("x + 1"))
    ran = run_python(*words, "--save-run", "one", folder=tmp_path)
    assert "1 item = 1 passed" in ran.stdout, ran.stdout + ran.stderr
    assert not list(schemas.run_problems(tmp_path / ".conformance/runs/one"))
    ran = run_python(*words, "--save-run", "two", "--baseline", "one", folder=tmp_path)
    assert "compile work: as in the run one" in ran.stdout, ran.stdout + ran.stderr
    (tmp_path / "test_mine.py").write_text(SOURCE.format("(x + 1).softmax(0), x.sin()"))
    ran = run_python(*words, "--baseline", "one", folder=tmp_path)
    assert " %, of it " in ran.stdout, ran.stdout + ran.stderr
    assert "memory: more bytes at the peak  (1 item: 1 case, on cuda_sm90)" in ran.stdout
    assert "1 item = 1 passed; next: python -m conformance review --baseline one" in ran.stdout
    listed = run_python("-m", "conformance", "review", "--baseline", "one", "--list", folder=tmp_path)
    assert re.search(r"  \w{6}  compile work \+\d", listed.stdout), listed.stdout + listed.stderr
