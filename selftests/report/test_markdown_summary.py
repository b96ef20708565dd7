"""The summary for the page of a CI job: failures first, hostile texts, and the limit of its size."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_runs import FAILED, KNOWN, PASSED, made_run, record
from markdown_it import MarkdownIt

from conformance.report import markdown_summary
from conformance.report.changes import Changes
from conformance.report.columns import cells_of
from conformance.storage.check_results import CheckResult, Outcome

CAUSE = {
    "id": "a1b2c3",
    "title": "kernels  split",
    "reach": "2 kernels, 1 case, on cpu_avx2",
    "members": [["flip/h", "cpu_avx2"]],
    "example": {"case": "flip/h", "target": "cpu_avx2", "where": "", "hunk": [" a", "-b", "+c"]},
}


def _html(text: str) -> str:
    return MarkdownIt("commonmark", {"html": True}).enable("table").render(text)


def test_it_counts_every_item_and_names_the_failures_before_the_changes(tmp_path: Path) -> None:
    records = [record("flip/h", "cpu_avx2", FAILED), record("flip/v", "cpu_avx2", KNOWN), record("flip/v", "xpu_pvc")]
    cells = cells_of([made_run(tmp_path, records, selected=["flip/d-xpu_pvc"])])
    text = markdown_summary.markdown_summary(cells, Changes([CAUSE]), "nightly")
    assert "**4 items = 1 failed + 1 not run + 1 known failure + 1 passed**" in text
    assert text.index("## Failed") < text.index("## Changes") < text.index("## By target")
    assert "<td>flip/h-cpu_avx2</td>\n<td>2.13</td>\n<td>numerics: NumericsError: 1 of 12" in _html(text)
    assert '<pre><code class="language-diff"> a\n-b\n+c\n</code></pre>' in _html(text)


def test_html_and_markdown_from_outside_are_shown_as_text(tmp_path: Path) -> None:
    hostile = "<img src=x onerror=alert(1)> | [a](javascript:b) `c` **d**"
    error = CheckResult(Outcome.FAILED, hostile)
    cells = cells_of([made_run(tmp_path, [record("flip/h", "cpu_avx2", error)])])
    html = _html(markdown_summary.markdown_summary(cells, Changes(), hostile))
    for tag in ("<img", "<a ", "<code>c", "<strong>d"):
        assert tag not in html
    assert html.count("&lt;img src=x onerror=alert(1)&gt; | [a](javascript:b) `c` **d**") == 2


def test_a_long_summary_shows_fewer_failures_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = [record(f"flip/h{number}", "cpu_avx2", FAILED) for number in range(120)]
    cells = cells_of([made_run(tmp_path, [*records, record("flip/v", "cpu_avx2", PASSED)])])
    assert "… and 20 more." in markdown_summary.markdown_summary(cells, Changes(), "nightly")
    monkeypatch.setattr(markdown_summary, "LIMIT", 3000)
    text = markdown_summary.markdown_summary(cells, Changes([CAUSE] * 30), "nightly")
    assert len(text.encode()) <= 3000
    assert "**121 items = 120 failed + 1 passed**" in text
    assert "more causes: the report has them all" in text
