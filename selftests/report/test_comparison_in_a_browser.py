"""`report --compare`: two runs or two targets; only what differs, regressions first, side by side."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browsing import check_with_axe, opened
from made_runs import FAILED, KNOWN, PASSED, SKIPPED, TEXT, made_run, record

from conformance.cli.main import main
from conformance.harness import accounting
from conformance.report.comparison import Side, compare
from conformance.storage.check_results import CheckResult, Outcome
from conformance.storage.runs import Run

SPLIT = TEXT.replace("1: flip", "2: flip").replace("11L]", "12L]")
CHANGED = {"numerics": PASSED, "code": CheckResult(Outcome.FAILED, "CodeError: x")}
UNSTORED = {"numerics": PASSED, "code": CheckResult(Outcome.FAILED, f"x: {accounting.NOTHING_STORED} 2.15")}


def _facts(kernels: int, moved: int) -> dict[str, Any]:
    return {
        "facts": {"kernels": f"{kernels}: flip"},
        "fact_values": {"kernels": kernels, "bytes.moved": moved, "buffers.allocated": 1},
    }


@pytest.fixture
def runs(tmp_path: Path) -> list[Run]:
    """Runs of two releases, the second one with an option."""
    before = [
        record("flip/worse", "cpu_avx2"), record("flip/better", "cpu_avx2", KNOWN), record("flip/equal", "cpu_avx2"),
        record("flip/code", "cpu_avx2", **_facts(1, 1000), seconds=1.5), record("flip/unstored", "cpu_avx2"),
        record("flip/gone", "cpu_avx2"), record("flip/here", "cpu_avx2"),
    ]  # fmt: skip
    after = [
        record("flip/worse", "cpu_avx2", FAILED), record("flip/better", "cpu_avx2"), record("flip/equal", "cpu_avx2"),
        record("flip/code", "cpu_avx2", text=SPLIT, checks=CHANGED, **_facts(2, 3000), seconds=2.5),
        record("flip/unstored", "cpu_avx2", checks=UNSTORED), record("flip/new", "cpu_avx2"),
        record("flip/here", "cpu_avx2", text="", checks={"compile": SKIPPED}),
    ]  # fmt: skip
    for each in after:
        each.torch = "2.15.0"
    second = made_run(tmp_path / "after", after, torch="2.15.0")
    description = second.description() | {"inductor_config": {"cpp.simdlen": 1}}
    (second.folder / "run.json").write_text(json.dumps(description), encoding="utf-8")
    return [made_run(tmp_path / "before", before), second]


@pytest.fixture
def view(browser: Any, runs: list[Run], tmp_path: Path) -> Iterator[Any]:
    """The page that the command writes."""
    file = tmp_path / "compare.html"
    assert main(["report", "--compare", *(str(run.folder) for run in runs), "-o", str(file)]) == 0
    yield from opened(browser, file.as_uri())


def test_regressions_come_first_and_what_is_equal_is_counted_alone(view: Any) -> None:
    assert " ".join(view.inner_text("#sum").split()) == (
        "5 pairs: 2 equal, 1 regressions, 1 mends, 1 other differences; 3 items without a result on both sides"
    )
    assert view.locator("h2").all_inner_texts() == ["Regressions (1)", "Mends (1)", "Other differences (1)"]
    rows = [row.split("\t") for row in view.locator(".differences tbody tr").all_inner_texts()]
    memory, time = "bytes moved 1,000 → 3,000", "compiles 1.5 → 2.5 s"
    assert rows == [
        ["flip/worse cpu_avx2", "✓ passed", "✗ wrong values", "", "", ""],
        ["flip/better cpu_avx2", "! known failure", "✓ passed", "", "", ""],
        ["flip/code cpu_avx2", "✓ passed", "Δ code changed", "code, kernels 1 → 2", memory, time],
    ]
    about = view.locator(".about-runs tbody tr").all_inner_texts()
    assert [row.split("\t")[0] for row in about] == ["A: before", "B: after"]
    assert "--inductor-config cpp.simdlen=1" in about[1]


def test_a_pair_is_side_by_side(view: Any) -> None:
    view.click("text=flip/code")
    view.wait_for_selector("table.diff")
    assert view.locator(".diff th").all_inner_texts() == ["cpu_avx2 2.13 A", "cpu_avx2 2.15 B"]
    assert "  auto tmp0 = in_ptr0[11L];" in view.locator("td.gone").all_inner_texts()
    assert "  auto tmp0 = in_ptr0[12L];" in view.locator("td.come").all_inner_texts()
    view.click("nav >> text=Changes (1)")
    view.wait_for_selector("h1:has-text('Changes')")
    view.click("nav >> text=All items")
    view.wait_for_selector(".matrix")
    assert view.locator(".matrix thead th").all_inner_texts() == ["1 operator", "cpu_avx2 2.13 A", "cpu_avx2 2.15 B"]


def test_two_targets_of_a_run_are_paired_by_case(tmp_path: Path) -> None:
    records = [
        record("flip/a", "cuda_sm80"), record("flip/a", "cuda_sm90", text=SPLIT),
        record("flip/b", "cuda_sm80"), record("flip/b", "cuda_sm90"), record("flip/b", "cpu_avx2", FAILED),
    ]  # fmt: skip
    run = made_run(tmp_path / "run", records)
    found = compare([Side(run, "cuda_sm80"), Side(run, "cuda_sm90")])
    assert [(row["case"], row["columns"], row["code"]) for row in found.rows] == [
        ("flip/a", [["2.13", "cuda_sm80"], ["2.13", "cuda_sm90"]], True)
    ]
    assert (found.equal, found.alone, found.sides) == (1, 0, ["A: run, cuda_sm80", "B: run, cuda_sm90"])


def test_what_is_refused(runs: list[Run], capsys: pytest.CaptureFixture[str]) -> None:
    one, other = (str(run.folder) for run in runs)
    for words, said in {
        ("third", "--compare", one, other): "--compare A B names both runs: leave out the others",
        ("--compare", one, other, "--json", "x.json"): "--compare writes HTML alone",
        ("--compare", f"{one}:cuda_sm90", other): "that run has no cuda_sm90, but cpu_avx2",
        ("--compare", one, "nosuch"): "there is no run 'nosuch'",
    }.items():
        assert main(["report", *words]) == 2
        assert said in capsys.readouterr().err


@pytest.mark.long("axe examines each page in a browser")
def test_axe_finds_nothing(view: Any) -> None:
    check_with_axe(view, ["#/", "#/all", "#/changes", "#/case/flip/code?side=B"])
