"""A report as JSON and as JUnit XML: the schema holds, counts are those of the record, hostile texts stay texts."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import schemas
from made_runs import EXCLUDED, FAILED, KNOWN, PASSED, SKIPPED, TEXT, made_run, record

from conformance.cli.main import main
from conformance.harness import accounting
from conformance.report.changes import changes_of
from conformance.report.columns import cells_of
from conformance.report.history import history
from conformance.report.json_report import json_report
from conformance.report.junit_report import junit_report
from conformance.report.states import STATES
from conformance.storage.check_results import CheckResult, Outcome
from conformance.storage.runs import NOT_ENDED, Run

HOSTILE = "</failure><b>&amp; \x00\x1b[31m\ud800 ü"
MISSED = [{"fact": "kernels", "wanted": "1", "got": "2", "reason": "why", "judgement": "who"}]


@pytest.fixture
def runs(tmp_path: Path) -> list[Run]:
    records = [
        record("flip/h", "cpu_avx2", evidence="native"),
        record("flip/h", "cuda_sm90", KNOWN),
        record("flip/v", "cpu_avx2", CheckResult(Outcome.FAILED, HOSTILE)),
        record("flip/v", "cuda_sm90", EXCLUDED),
        record("sum/a", "cpu_avx2", missed=MISSED),
        record("sum/a", "cuda_sm90", text="", checks={"compile": SKIPPED}),
        record("sum/b", "cpu_avx2", checks={"compile": CheckResult(Outcome.FAILED, NOT_ENDED)}),
        record("sum/b", "cuda_sm90", CheckResult(Outcome.STALE, "it passes now")),
    ]
    first = made_run(tmp_path / "old", records, selected=["sum/c-cpu_avx2"])
    changed = TEXT.replace("kernels       1: flip", "kernels       2: flip, flip").replace("11L]", "12L]")
    newer = record(
        "flip/h",
        "cpu_avx2",
        FAILED,
        torch="2.15.0",
        text=changed,
        facts={"kernels": "2: flip, flip"},
        evidence="native",
    )
    return [first, made_run(tmp_path / "new", [newer], torch="2.15.0")]


def test_json_is_as_its_schema_says_and_its_counts_add_up(runs: list[Run]) -> None:
    cells = cells_of(runs)
    data = json.loads(json_report(runs, cells, changes_of(cells)))
    assert schemas.problems("output", "report", data) == []
    assert data["total"] == len(data["items"]) == 10
    counted = Counter((each["torch"], each["target"], each["state"]) for each in data["items"])
    for column in data["counts"]:
        assert set(column["states"]) == set(STATES)
        for state, count in column["states"].items():
            assert count == counted[column["torch"], column["target"], state]
    assert sum(counted.values()) == 10
    (item,) = [each for each in data["items"] if (each["case"], each["target"]) == ("flip/v", "cpu_avx2")]
    assert item["checks"]["numerics"] == {"outcome": "failed", "detail": HOSTILE}
    assert (item["run"], item["version"], item["state"]) == ("old", "2.13.0+cpu", "crash")
    assert item["node"] == "ops/test_some.py::test_some[flip/v-cpu_avx2]"


def test_history_says_on_which_release_state_facts_and_code_changed(runs: list[Run]) -> None:
    (step,) = history(cells_of(runs))
    assert (step.case, step.target, step.before, step.torch) == ("flip/h", "cpu_avx2", "2.13", "2.15")
    assert step.to_json()["state"] == ["passed", "wrong values"]
    assert step.facts == {"kernels": ("", "2: flip, flip")}
    assert step.code
    assert history(cells_of(runs[:1])) == []


def test_history_leaves_out_what_depends_on_the_machine(tmp_path: Path) -> None:
    old = made_run(tmp_path / "old", [record("flip/h", "cpu_avx2")])
    skipped = record("flip/h", "cpu_avx2", text="", torch="2.15.0", checks={"compile": SKIPPED})
    new = made_run(tmp_path / "new", [skipped], torch="2.15.0")
    assert history(cells_of([old, new])) == []


def test_history_compares_no_state_with_not_stored(tmp_path: Path) -> None:
    unstored = CheckResult(Outcome.FAILED, f"NoStoredCodeError: {accounting.NOTHING_STORED} 2.15")
    old = made_run(tmp_path / "old", [record("flip/h", "cpu_avx2")])
    item = record("flip/h", "cpu_avx2", torch="2.15.0", checks={"numerics": PASSED, "code": unstored})
    new = made_run(tmp_path / "new", [item], torch="2.15.0")
    assert history(cells_of([old, new])) == [], "facts and code are equal, and no state is known"


def _entries(text: str) -> dict[str, dict[str, Any]]:
    """Suite → "class name" → the element below the entry, or None."""
    root = ET.fromstring(text)  # noqa: S314
    found: dict[str, dict[str, Any]] = {}
    for suite in root:
        entries = {
            f"{each.get('classname')} {each.get('name')}": next(iter(each), None) for each in suite.iter("testcase")
        }
        found[str(suite.get("name"))] = entries
        tags = Counter(each.tag for each in entries.values() if each is not None)
        assert suite.get("tests") == str(len(entries))
        for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            assert suite.get(name) == str(tags[tag]), name
    return found


def test_junit_has_each_check_with_its_message(runs: list[Run]) -> None:
    folder = runs[0].artifacts("flip/v-cpu_avx2")
    (folder / "numerics.txt").write_text(f"the whole message {HOSTILE[:-3]}", encoding="utf-8")
    suites = _entries(junit_report(cells_of(runs), "nightly"))
    assert list(suites) == ["torch 2.13", "torch 2.15"]
    entries = suites["torch 2.13"]

    def of(check: str, name: str) -> Any:
        return entries[f"ops.test_some.{check} test_some[{name}]"]

    assert of("numerics", "flip/h-cpu_avx2") is None
    assert of("code", "flip/v-cpu_avx2") is None
    known, failed = of("numerics", "flip/h-cuda_sm90"), of("numerics", "flip/v-cpu_avx2")
    assert (known.tag, known.get("message"), known.get("type")) == (
        "skipped",
        "known failure: too large",
        "pytest.xfail",
    )
    assert (failed.tag, failed.get("message")) == ("failure", "</failure><b>&amp; #x00#x1B[31m#xD800 ü")
    assert failed.text == "the whole message </failure><b>&amp; #x00#x1B[31m"
    assert of("numerics", "sum/b-cuda_sm90").tag == "failure"
    assert (of("compile", "sum/a-cuda_sm90").tag, of("compile", "sum/a-cuda_sm90").get("message")) == (
        "skipped",
        "no Triton",
    )
    assert of("compile", "sum/b-cpu_avx2").tag == "error"
    assert entries["sum.compile sum/c-cpu_avx2"].tag == "error"
    assert of("numerics", "sum/a-cpu_avx2") is None


def test_the_command_writes_what_it_is_asked_for(runs: list[Run], tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    folders = [str(run.folder) for run in runs]
    assert main(["report", *folders, "--json", "data.json", "--junit", "junit.xml"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{name}: 0.0 MB, 10 items of 2 runs" for name in ("data.json", "junit.xml")
    ]
    assert not Path("report.html").exists()
    assert list(_entries(Path("junit.xml").read_text(encoding="utf-8"))) == ["torch 2.13", "torch 2.15"]
    assert main(["report", *folders]) == 0
    assert Path("report.html").exists()
    assert main(["report", *folders, "--json", "data.json", "--bench", "times.json"]) == 2
    assert "name it with -o FILE" in capsys.readouterr().err
