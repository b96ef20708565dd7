"""The page of same bits: a table by operator and target, its filters, and the reasons."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from browsing import check_with_axe, opened, show
from made_runs import made_run, record

from conformance.cases.bit_variants import DIFFER, MAY_DIFFER, PROPERTIES, SAME, UNDEFINED
from conformance.report.changes import Changes
from conformance.report.columns import cells_of
from conformance.report.further_pages import further_pages
from conformance.report.page import page
from conformance.storage.runs import ItemRecord


def judged(case: str, target: str, words: list[str]) -> ItemRecord:
    verdicts = {
        kind: {
            "word": word,
            "evidence": "" if word == UNDEFINED else "native" if target == "cpu_avx2" else "structure",
            "name": "1 of 8 rows" if kind == "batch" else "",
            "text": "",
            "bits": "",
            "reason": f"kernel 1 of {case} <b>adds</b> atomically" if word in (DIFFER, MAY_DIFFER) else "",
        }
        for kind, word in zip(PROPERTIES, words, strict=True)
    }
    return record(case, target, same_bits=verdicts)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    records = [
        judged("sum/rows-f32", "cuda_sm90", [MAY_DIFFER, MAY_DIFFER, SAME, SAME, SAME]),
        judged("sum/all-f32", "cuda_sm90", [SAME, UNDEFINED, SAME, SAME, SAME]),
        judged("flip/a", "cpu_avx2", [SAME, SAME, SAME, SAME, DIFFER]),
    ]
    run = made_run(tmp_path_factory.mktemp("run"), records)
    cells = cells_of([run])
    file = tmp_path_factory.mktemp("bits") / "bits.html"
    file.write_text(page([run], cells, Changes(), further_pages(cells)), encoding="utf-8")
    return file.as_uri()


@pytest.fixture
def view(browser: Any, address: str) -> Iterator[Any]:
    yield from opened(browser, address)


def rows(view: Any) -> list[str]:
    return [" | ".join(row.locator("th, td").all_inner_texts()) for row in view.locator("tbody tr").all()]


def test_the_table_counts_and_the_list_says_why(view: Any) -> None:
    show(view, "#/page/same-bits")
    assert sorted(rows(view)) == [
        "flip | cpu_avx2 | 1 of 1 | 1 of 1 | 1 of 1 | 1 of 1 | 0 of 1",
        "sum | cuda_sm90 | 1 of 2 | 0 of 1 | 2 of 2 | 2 of 2 | 2 of 2",
    ]
    assert view.locator("#sum").inner_text() == "3 verdicts that bits differ, or may"
    first = view.locator("main li").first.inner_text()
    assert "eager differ (native)" in first
    assert "kernel 1 of flip/a <b>adds</b> atomically" in first, "HTML in a reason is text"


def test_a_filter_is_in_the_address(view: Any) -> None:
    show(view, "#/page/same-bits")
    view.locator("select[name=property]").select_option("batch")
    view.locator("select[name=verdict]").select_option("may differ")
    assert "property=batch" in view.url
    assert rows(view) == ["flip | cpu_avx2 | 1 of 1", "sum | cuda_sm90 | 0 of 1"]
    assert view.locator("main li").all_inner_texts() == [
        (
            "sum/rows-f32 on cuda_sm90: batch may differ (structure): 1 of 8 rows\n"
            "kernel 1 of sum/rows-f32 <b>adds</b> atomically"
        )
    ]
    view.locator("input[name=q]").fill("flip")
    assert view.locator("main li").count() == 0


def test_it_is_accessible(view: Any) -> None:
    check_with_axe(view, ["#/page/same-bits"])
