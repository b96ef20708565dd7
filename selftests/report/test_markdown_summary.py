"""The summary for the page of a CI job: causes by severity, few lines, and hostile texts."""

from __future__ import annotations

from pathlib import Path

from made_runs import FAILED, KNOWN, PASSED, TEXT, made_run, record
from markdown_it import MarkdownIt

from conformance.harness import accounting
from conformance.report.changes import changes_of
from conformance.report.columns import cells_of
from conformance.report.markdown_summary import markdown_summary
from conformance.storage.check_results import CheckResult, Outcome
from conformance.storage.runs import Run
from conformance.storage.snapshots import Store


def _failed(detail: str) -> CheckResult:
    return CheckResult(Outcome.FAILED, detail)


def _summary(run: Run, title: str = "nightly") -> str:
    cells = cells_of([run])
    return markdown_summary([run], cells, changes_of(cells, [run]), title)


def _html(text: str) -> str:
    return MarkdownIt("commonmark", {"html": True}).enable("table").render(text)


def test_causes_come_by_severity_and_not_items(tmp_path: Path) -> None:
    Store(tmp_path / "store").merge({f"sum/{name}": {("2.13", "cpu_avx2"): TEXT} for name in "ab"})
    text, store = TEXT.replace("in_ptr0[11L]", "load_cached(in_ptr0[11L])"), str(tmp_path / "store")
    changed = {"text": text, "store": store, "checks": {"code": _failed("CodeError: facts changed:")}}
    unstored = {"code": _failed(f"NoStoredCodeError: flip/d-cpu_avx2: {accounting.NOTHING_STORED} 2.13")}
    not_met = {f"flip/{n}": {"requirements": _failed(f"RequirementError: flip/{n}: kernels: {n}")} for n in range(30)}
    records = [
        *(record(f"sum/{name}", "cpu_avx2", **changed) for name in "ab"),
        *(record(case, "cpu_avx2", checks=checks) for case, checks in not_met.items()),
        record("flip/d", "cpu_avx2", checks=unstored),
        record("flip/h", "cpu_avx2", FAILED), record("flip/v", "cpu_avx2", KNOWN), record("flip/v", "xpu_pvc", PASSED),
    ]  # fmt: skip
    said = _summary(made_run(tmp_path / "run", records, selected=["flip/e-xpu_pvc"]))
    rows = [line.split(" | ") for line in said.splitlines() if line.startswith("| ")][1:]
    assert [(row[0].strip("| "), row[2].partition(" of ")[0]) for row in rows] == [
        ("wrong values", "1 item"), ("not run", "1 item"), ("requirement not met", "30 items"),
        ("code changed", "2 items"), ("not stored", "1 item"),
    ]  # fmt: skip
    assert "37 items = 1 wrong values + 1 not run + 30 requirement not met + 2 code changed + 1 not stored" in said
    assert "run: torch 2.13.0, Triton 3.7.1; options none; compared with what is stored" in said


def test_many_causes_and_runs_are_twenty_lines(tmp_path: Path) -> None:
    errors = [f"{chr(65 + number)}Error: no" for number in range(26)]
    records = [record(f"flip/{each[0]}", "cpu_avx2", checks={"compile": _failed(each)}) for each in errors]
    runs = [made_run(tmp_path / name, records) for name in "abcd"]
    cells = cells_of(runs)
    lines = markdown_summary(runs, cells, changes_of(cells, runs), "nightly").splitlines()
    assert len(lines) == 20
    assert "… and 18 more causes: the report has them all" in lines[-1]


def test_html_and_markdown_from_outside_are_shown_as_text(tmp_path: Path) -> None:
    hostile = "<img src=x onerror=alert(1)> | [a](javascript:b) `c` **d**"
    html = _html(_summary(made_run(tmp_path, [record("flip/h", "cpu_avx2", _failed(hostile))]), hostile))
    for tag in ("<img", "<a ", "<code>c", "<strong>d"):
        assert tag not in html
    assert html.count("&lt;img src=x onerror=alert(1)&gt; | [a](javascript:b) `c` **d**") == 2
