"""The account of a run: how each item ended, what was compared less, and that pytest and the record agree."""

from __future__ import annotations

import pytest

from conformance.harness import accounting
from conformance.review.review import Review
from conformance.storage.check_results import CheckResult, Outcome
from conformance.storage.runs import NOT_ENDED, ItemRecord, Run

PASSED = CheckResult(Outcome.PASSED)
SKIPPED = CheckResult(Outcome.SKIPPED, "no compiler")
FAILED = CheckResult(Outcome.FAILED, "NumericsError: wrong")
UNSTORED = CheckResult(Outcome.FAILED, "CodeError: op/a: nothing is stored for torch 2.13")
BEGUN = CheckResult(Outcome.FAILED, NOT_ENDED)


def item(name: str, text: str = "kernels  none", **checks: CheckResult) -> ItemRecord:
    return ItemRecord(f"op/{name}", "cpu_avx2", "native", "2.13", "", text=text, checks=checks)


ITEMS = [
    item("passed", numerics=PASSED, code=PASSED),
    item("failed", numerics=FAILED, code=PASSED),
    item("stale", numerics=CheckResult(Outcome.STALE, "passes")),
    item("known", numerics=CheckResult(Outcome.KNOWN, "a bug"), code=PASSED),
    item("excluded", "", compile=CheckResult(Outcome.EXCLUDED, "for gpu only")),
    item("cannot", "", compile=SKIPPED),
    item("half", numerics=SKIPPED, code=PASSED),
    item("begun", "", compile=BEGUN),
    item("left-out", numerics=CheckResult(Outcome.EXCLUDED, "random numbers"), code=PASSED),
]


@pytest.fixture
def run(tmp_path) -> Run:
    result = Run(tmp_path)
    names = [*(each.name for each in ITEMS), "op/never-cpu_avx2"]
    result.write_selected({f"test_op.py::{name}": name for name in names} | {"test_op.py::test_plain": ""})
    return result


def test_every_selected_item_is_in_the_account(run):
    assert accounting.account(run, ITEMS) == (
        "10 items = 3 passed + 2 failed + 1 known failures + 1 excluded + 1 cannot run + 2 not run; "
        "numerics of 1 item did not run"
    )


def test_what_was_compared_less_has_its_reason(run):
    assert accounting.shortcomings(run, ITEMS) == [
        "not run: 2 of the 10 selected items: op/begun-cpu_avx2, op/never-cpu_avx2",
        "cannot run: no compiler (1 item)",
        "numerics did not run: no compiler (1 item)",
    ]
    assert accounting.shortcomings(Run(run.folder / "none"), ITEMS[:1]) == []


def test_a_check_that_the_case_leaves_out_has_its_reason():
    assert accounting.left_out_lines(ITEMS) == ["numerics left out: 1 item: random numbers"]
    assert accounting.left_out_lines(ITEMS[:2]) == []


def test_pytest_and_the_record_must_agree(run):
    failed = [f"test_op.py::op/{name}-cpu_avx2" for name in ("failed", "stale")]
    assert accounting.contradictions(run, ITEMS, [*failed, "test_op.py::test_plain"]) == []
    assert accounting.contradictions(run, ITEMS, [failed[0], "test_op.py::op/passed-cpu_avx2"]) == [
        "pytest reports op/passed-cpu_avx2 as failed, and the run's record does not",
        "the run's record has op/stale-cpu_avx2 as failed, and pytest does not",
    ]


def test_code_that_nothing_would_store_is_not_promised():
    wrong = item("wrong", numerics=FAILED, code=UNSTORED)
    assert accounting.unstored_lines([wrong]) == []
    [line] = accounting.unstored_lines([wrong, item("right", numerics=PASSED, code=UNSTORED)])
    assert line.startswith("1 case has no stored code yet (op/right)")


def test_numerics_are_named_last():
    mixed = [item("numbers", numerics=FAILED), item("code", code=UNSTORED), item("begun", compile=BEGUN)]
    assert accounting.failure_lines(mixed, Review()) == [
        "numerics failed: op/numbers-cpu_avx2: NumericsError: wrong",
    ]
    many = [item(f"c{number}", numerics=FAILED) for number in range(accounting.MAX_FAILURES + 3)]
    assert accounting.failure_lines(many, Review())[-1] == "numerics failed: 3 more items"


def test_cases_without_stored_code_are_counted_in_one_line():
    many = [item(f"c{number}", code=UNSTORED, numerics=PASSED) for number in range(27)]
    assert accounting.failure_lines(many, Review()) == []
    assert accounting.unstored_lines(many) == [
        "27 cases have no stored code yet: EXPECTTEST_ACCEPT=new pytest, with the arguments of this run, stores it"
    ]
    binary = CheckResult(Outcome.FAILED, "NoStoredBinariesError: op/a: no binaries are stored")
    [line] = accounting.unstored_lines([item("one", binary=binary)])
    assert line.startswith("1 case has no stored binaries yet (op/one): EXPECTTEST_ACCEPT=new")
    assert accounting.unstored_lines([item("numbers", numerics=FAILED)]) == []
