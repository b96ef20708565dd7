"""The check "work": what a run says of its compiles and of memory, alone and beside a baseline run."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
import schemas
from suites import run_python

from conformance.harness.ending.work_lines import work_lines
from conformance.storage.runs import ItemRecord

SOURCE = """
from conformance import case, tensor

@case(x=tensor(8, 30))
def test_it(x):
    return {}
"""


@dataclass
class Baseline:
    records: dict = field(default_factory=dict)

    def item(self, case, target):
        return self.records.get((case, target))


def record(name, calls, scheduling, memory):
    values = {"compile_work": calls, "compile_work.scheduling": scheduling, "compile_work.nodes": 3, "memory": memory}
    return ItemRecord(name, "cuda_sm90", "deviceless", "2.13.0", "", fact_values=values)


UNCOUNTED = ItemRecord("a", "cuda_sm90", "deviceless", "2.13.0", "")


def lines(now, before):
    baseline = Baseline({(each.case, each.target): each for each in before}) if before is not None else None
    return list(work_lines(now, baseline, "old"))


def test_what_became_more_and_of_what():
    before = [record("a", 1000, 100, 4096), record("b", 3000, 300, 4096), record("c", 500, 10, 8)]
    now = [record("a", 1200, 300, 8192), record("b", 3000, 300, 2048), record("d", 1, 1, 1)]
    assert lines(now, before) == [
        "compile work: 4,201 calls of Python functions in 3 items",
        "compile work +5.0 % against the run old, of it scheduling +50.0 %",
        "memory: 1 item with more bytes at the peak than in the run old: a-cuda_sm90 4,096 → 8,192",
        "memory: 1 item with fewer bytes at the peak than in the run old: b-cuda_sm90 4,096 → 2,048",
    ]


@pytest.mark.parametrize(
    ("before", "last"),
    [
        (None, "compile work: 1,000 calls of Python functions in 1 item"),
        ([record("a", 1000, 100, 4096)], "compile work: as in the run old"),
        (
            [ItemRecord("a", "cuda_sm90", "deviceless", "2.13.0", "")],
            "the run old counted nothing: give it --checks work",
        ),
    ],
)
def test_nothing_to_compare(before, last):
    assert lines([record("a", 1000, 100, 4096)], before)[-1] == last


def test_the_functions_that_are_called_more():
    """One side names C.c alone: on the other it has as many calls as the last there, at most."""
    before, now = record("a", 100_000, 100, 8), record("a", 104_000, 100, 8)
    before.fact_values["compile_work.functions"] = {"torch/a.py: a": 5000, "torch/b.py: b": 900}
    now.fact_values["compile_work.functions"] = {"torch/a.py: a": 7000, "torch/c.py: C.c": 2900, "torch/b.py: b": 850}
    assert lines([now], [before])[-1] == (
        "the functions with the most calls more or fewer: torch/a.py: a +2,000, torch/c.py: C.c +2,000"
    )


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
    (tmp_path / "test_mine.py").write_text(SOURCE.format("(x + 1).softmax(0), x"))
    ran = run_python(*words, "--baseline", "one", folder=tmp_path)
    assert " % against the run one, of it " in ran.stdout, ran.stdout + ran.stderr
    assert "1 item = 1 passed" in ran.stdout
