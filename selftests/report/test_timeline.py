"""The history of runs: files that git can merge, the first bad run, and the page."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browsing import check_with_axe, opened
from made_runs import FAILED, PASSED, made_run, record

from conformance.cli.main import main
from conformance.report.timeline import add, read, timeline
from conformance.storage.check_results import CheckResult
from conformance.storage.runs import Run, RunError

GOOD_AND_BAD = "--good bbb --bad ccc --numerics"


def _run(folder: Path, day: int, commit: str, numerics: CheckResult, *, target: str = "cpu_avx2") -> Run:
    run = made_run(folder / f"day{day}", [record("flip/h", target, numerics), record("flip/v", target)],
                   time=f"2026-11-{day:02}T07:00:00Z")  # fmt: skip
    source = {"torch_source": {"path": "/pytorch", "commit": commit}} if commit else {}
    (run.folder / "run.json").write_text(json.dumps(run.description() | source), encoding="utf-8")
    return run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Runs of four days, of which the last two are bad, and one of another target. They are added in any order."""
    history = tmp_path / "history"
    days = [(1, "aaa", FAILED), (2, "bbb", PASSED), (4, "ddd", FAILED), (3, "ccc-dirty", FAILED)]
    for day, commit, numerics in days:
        add(_run(tmp_path, day, commit, numerics), history)
    add(_run(tmp_path, 5, "eee", PASSED, target="xpu_pvc"), history)
    return history


def test_each_run_is_a_file_that_the_same_run_replaces(folder: Path, tmp_path: Path) -> None:
    names = sorted(path.name for path in folder.iterdir())
    assert names == [f"202611{day:02}T070000Z-day{day}.jsonl" for day in range(1, 6)]
    text = (folder / names[0]).read_text(encoding="utf-8")
    add(Run(tmp_path / "day1"), folder)
    assert (folder / names[0]).read_text(encoding="utf-8") == text
    head, line = map(json.loads, text.splitlines())
    assert head == {"format": "conformance history 1", "run": "day1", "time": "2026-11-01T07:00:00Z", "commit": "aaa",
                    "torch": "2.13.0, Triton 3.7.1, Python files of aaa", "options": "none"}  # fmt: skip
    states = {"wrong values": ["flip/h"], "passed": 1}
    assert line == {"operator": "flip", "target": "cpu_avx2", "states": states}


def test_the_first_bad_run_is_that_after_the_last_good_one(folder: Path) -> None:
    (row,) = timeline(read(folder))["rows"]
    bad, good = {"wrong values": 1, "passed": 1}, {"passed": 2}
    assert row["runs"] == [bad, good, bad, bad, {}]
    assert row["bad"] == {
        "run": 2,
        "state": "wrong values",
        "cases": ["flip/h"],
        "bisect": f"python -m conformance bisect flip/h --target cpu_avx2 --source PYTORCH {GOOD_AND_BAD}",
    }


def test_a_release_is_named_by_its_tag_and_equal_ones_have_no_command(tmp_path: Path) -> None:
    runs = [_run(tmp_path, 1, "", PASSED), _run(tmp_path, 2, "", FAILED)]
    for run in runs:
        add(run, tmp_path / "history")
    entries = read(tmp_path / "history")
    assert [entry.commit for entry in entries] == ["v2.13.0", "v2.13.0"]
    assert timeline(entries)["rows"][0]["bad"]["bisect"] == ""


def test_what_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="has no history: add a run to it"):
        read(tmp_path / "none")
    for text, said in {"{": "is no run of a history", '{"format": 7}': "is no run", "": "is no run"}.items():
        (tmp_path / "a.jsonl").write_text(text, encoding="utf-8")
        with pytest.raises(RunError, match=said):
            read(tmp_path)
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(RunError, match="cannot be written to"):
        add(_run(tmp_path, 1, "", PASSED), tmp_path / "file" / "history")


@pytest.fixture
def view(browser: Any, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Any]:
    """The page that the commands write."""
    run, file = str(tmp_path / "day4"), tmp_path / "report.html"
    assert main(["history", "add", run, str(folder)]) == 0
    assert capsys.readouterr().out == f"{folder / '20261104T070000Z-day4.jsonl'}\n"
    assert main(["report", run, "--history", str(folder), "-o", str(file)]) == 0
    yield from opened(browser, file.as_uri())


def test_the_page_shows_the_runs_and_since_when_it_is_bad(view: Any) -> None:
    view.click("nav >> text=History (5)")
    view.wait_for_selector("h1:text-is('History')")
    (row,) = view.locator(".matrix tbody tr").all()
    assert row.locator("td:not(.bad)").all_inner_texts() == ["✗ 1 / 2", "2", "✗ 1 / 2", "✗ 1 / 2", "·"]
    bad = row.locator(".bad").inner_text()
    assert "✗ wrong values 2026-11-03, day3" in bad
    assert GOOD_AND_BAD in bad
    row.locator("text=flip/h").first.click()
    view.wait_for_selector("h1:text-is('flip/h')")
    check_with_axe(view, ["#/page/history"])
