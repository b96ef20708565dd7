"""The cells of several runs: states, evidence, and which of two records of one item a report shows."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_runs import EXCLUDED, FAILED, KNOWN, PASSED, SKIPPED, made_run, record

from conformance.harness import accounting
from conformance.report.columns import Column, cells_of
from conformance.report.states import STATES
from conformance.storage.binaries import NO_BINARIES
from conformance.storage.check_results import CheckResult, Outcome
from conformance.storage.merged_runs import merge_runs
from conformance.storage.runs import NOT_ENDED, ItemRecord, Run


def _failed(detail: str) -> CheckResult:
    return CheckResult(Outcome.FAILED, detail)


def test_a_state_says_what_failed_and_the_worst_check_decides(tmp_path: Path) -> None:
    code = _failed("CodeError: facts changed:")
    checks: dict[str, dict[str, CheckResult]] = {
        "wrong values": {"code": code, "numerics": FAILED},
        "crash": {"numerics": _failed("RuntimeError: CUDA error"), "code": code},
        "requirement not met": {"requirements": _failed("RequirementError: kernels"), "code": code},
        "code changed": {"code": code, "binary": _failed(f"BinaryError: {NO_BINARIES}")},
        "stale known failure": {"numerics": CheckResult(Outcome.STALE, "passes")},
        "not stored": {"code": _failed(f"NoStoredCodeError: {accounting.NOTHING_STORED} 2.13")},
        "cannot run here": {"compile": _failed("this machine has no Triton: install it")},
        "known failure": {"numerics": KNOWN, "code": PASSED},
        "excluded by the case": {"compile": EXCLUDED},
        "passed": {"numerics": PASSED, "code": PASSED},
        "not run": {"numerics": PASSED, "code": _failed(NOT_ENDED)},
    }
    made = [record(f"flip/{state}", "cpu_avx2", checks=results) for state, results in checks.items()]
    made.append(record("flip/missed optimisation", "cpu_avx2", missed=[{"fact": "kernels"}]))
    found = cells_of([made_run(tmp_path, made)]).cells.values()
    assert {each.case.removeprefix("flip/"): each.state for each in found} == {state: state for state in STATES}


def test_an_item_that_cannot_run_is_not_one_that_did_not_run(tmp_path: Path) -> None:
    skipped = record("flip/h", "cpu_avx2", text="", checks={"compile": SKIPPED})
    run = made_run(tmp_path, [skipped], selected=["flip/v-cpu_avx2"])
    cells = cells_of([run]).cells
    column = Column("2.13", "cpu_avx2")
    assert cells["flip/h", column].state == "cannot run here"
    assert cells["flip/v", column].state == "not run"
    assert {each.evidence for each in cells.values()} == {"none"}


def test_the_stronger_evidence_of_two_runs_is_shown(tmp_path: Path) -> None:
    native = made_run(tmp_path / "gpu", [record("flip/h", "cuda_sm90", evidence="native", mode="native")])
    emulated = made_run(tmp_path / "cpu", [record("flip/h", "cuda_sm90", FAILED), record("flip/v", "cuda_sm90")])
    for runs in ([native, emulated], [emulated, native]):
        cells = cells_of(runs)
        column = Column("2.13", "cuda_sm90")
        assert (cells.cells["flip/h", column].evidence, cells.cells["flip/v", column].evidence) == (
            "native",
            "emulated",
        )
        assert cells.replaced == 1
        assert runs[cells.cells["flip/h", column].run] is native


def test_of_two_records_with_equal_evidence_the_later_run_is_shown(tmp_path: Path) -> None:
    runs = [
        made_run(tmp_path / name, [record("flip/h", "cpu_avx2", end)]) for name, end in (("a", FAILED), ("b", PASSED))
    ]
    (cell,) = cells_of(runs).cells.values()
    assert (cell.state, cell.run) == ("passed", 1)


def test_of_two_records_with_equal_evidence_that_of_the_newer_run_is_shown(tmp_path: Path) -> None:
    newer = made_run(tmp_path / "new", [record("flip/h", "cpu_avx2", PASSED)], time="2026-11-24T08:00:00Z")
    older = made_run(tmp_path / "old", [record("flip/h", "cpu_avx2", FAILED)])
    for runs in ([newer, older], [older, newer]):
        (cell,) = cells_of(runs).cells.values()
        assert runs[cell.run] is newer


NOT_ENDED_THERE = CheckResult(Outcome.FAILED, NOT_ENDED)
PAIRS = {
    "one that did not end": record("flip/h", "cpu_avx2", evidence="native", checks={"compile": NOT_ENDED_THERE}),
    "a skipped one": record("flip/h", "cpu_avx2", evidence="native", text="", checks={"compile": SKIPPED}),
    "one that did not compile": record("flip/h", "cpu_avx2", text="", evidence="native", checks={"compile": FAILED}),
    "less evidence": record("flip/h", "cpu_avx2", evidence="generated"),
}


@pytest.mark.parametrize("weaker", PAIRS.values(), ids=PAIRS)
def test_a_report_shows_the_record_that_a_merged_run_keeps(tmp_path: Path, weaker: ItemRecord) -> None:
    newer = made_run(tmp_path / "weaker", [weaker], time="2026-11-24T08:00:00Z")
    older = made_run(tmp_path / "stronger", [record("flip/h", "cpu_avx2", evidence="emulated")])
    for number, runs in enumerate(([newer, older], [older, newer])):
        (cell,) = cells_of(runs).cells.values()
        assert runs[cell.run] is older
        merge_runs(runs, tmp_path / f"merged{number}")
        (kept,) = Run(tmp_path / f"merged{number}").items()
        assert kept.run == "stronger"


def test_an_item_of_one_run_that_did_not_end_replaces_nothing(tmp_path: Path) -> None:
    run = made_run(tmp_path, [record("flip/h", "cpu_avx2", checks={"compile": NOT_ENDED_THERE})])
    cells = cells_of([run])
    assert [cell.state for cell in cells.cells.values()] == ["not run"]
    assert cells.replaced == 0


def test_a_record_replaces_an_item_that_did_not_run_elsewhere(tmp_path: Path) -> None:
    shards = [
        made_run(tmp_path / "a", [record("flip/h", "cpu_avx2")], selected=["flip/v-cpu_avx2"]),
        made_run(tmp_path / "b", [record("flip/v", "cpu_avx2")], selected=["flip/h-cpu_avx2"]),
    ]
    assert {cell.state for cell in cells_of(shards).cells.values()} == {"passed"}


def test_the_releases_of_a_target_are_side_by_side(tmp_path: Path) -> None:
    old = made_run(tmp_path / "old", [record("flip/h", "cuda_sm90", torch="2.9.1")], torch="2.9.1")
    new = made_run(tmp_path / "new", [record("flip/h", name) for name in ("xpu_pvc", "cuda_sm90", "cpu_avx2")])
    assert cells_of([new, old]).columns == [
        Column("2.13", "cpu_avx2"), Column("2.9", "cuda_sm90"), Column("2.13", "cuda_sm90"), Column("2.13", "xpu_pvc")
    ]  # fmt: skip
