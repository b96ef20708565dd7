"""Costs of a compile in reports: a cause among the changes, and nothing that needs someone."""

from __future__ import annotations

import json
from pathlib import Path

from made_runs import TEXT, made_run, record

from conformance.cli.main import main
from conformance.report.changes import changes_of
from conformance.report.columns import cells_of
from conformance.report.comparison import Side, compare
from conformance.report.needs import needs_of
from conformance.storage.check_results import CheckResult, Outcome
from conformance.storage.runs import Run

TITLES = ["compile work +50.0 %, of it scheduling +50.0 %", "memory: more bytes at the peak"]
CHANGED = {"code": CheckResult(Outcome.FAILED, "CodeError: x")}


def counted(name: str, calls: int, memory: int, **more):
    values = {"compile_work": calls, "compile_work.scheduling": calls, "memory": memory}
    return record(name, "cuda_sm90", fact_values=values, **more)


def both_runs(tmp_path: Path, **more) -> tuple[Run, Run]:
    """The second has the first as its baseline, and a case whose costs did not change."""
    before = made_run(tmp_path / "before", [counted("flip/h", 1000, 8), counted("flip/v", 1000, 8)])
    after = made_run(tmp_path / "after", [counted("flip/h", 2000, 16, **more), counted("flip/v", 1000, 8)])
    description = after.description() | {"options": {"baseline": str(before.folder)}, "root": str(tmp_path)}
    (after.folder / "run.json").write_text(json.dumps(description), encoding="utf-8")
    return before, after


def test_two_sides(tmp_path):
    changes = compare([Side(run) for run in both_runs(tmp_path)]).changes.data
    assert [(each["title"], each["kind"], each["members"]) for each in changes] == [
        (title, "cost", [["flip/h", "cuda_sm90"]]) for title in TITLES
    ]


def test_a_run_and_its_baseline(tmp_path):
    """The changed code needs someone, and its costs do not."""
    new = TEXT.replace("1: flip", "2: flip, flip").replace("11L]", "12L]")
    _, after = both_runs(tmp_path, text=new, checks=CHANGED)
    cells = cells_of([after])
    changes = changes_of(cells, [after])
    assert [each["title"] for each in changes.data if each["kind"] == "cost"] == TITLES
    of_text = [each for each in changes.data if each["kind"] != "cost"]
    assert [need.title for need in needs_of(cells, changes)] == [each["title"] for each in of_text] != []
    assert changes.data[0]["compared_with"] == [f"run {tmp_path / 'before'}"]


def test_the_command_shows_the_items(tmp_path, capsys):
    before, after = both_runs(tmp_path)
    assert main(["review", str(after.folder), "--baseline", str(before.folder), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert [(each["kind"], each["items"]) for each in said["causes"]] == [("cost", ["flip/h-cuda_sm90"])] * 2
    assert said["causes"][1]["example"]["diff"] == ["flip/h-cuda_sm90  8 → 16 bytes"]
    assert said["items"] == {}
