"""Known bugs in a page: the table with its filters, an address for each bug, and copying its script."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browsing import check_with_axe, opened, show

from conformance.expectations import known_bugs, known_failures
from conformance.report.changes import Changes
from conformance.report.columns import Cells
from conformance.report.further_pages import bugs_page
from conformance.report.page import page

BUG = """
[[failure]]
case = {cases}
check = "numerics"
target = "{target}"
torch = "{torch}"
error = "off"
reason = "{reason}"
issue = "{issue}"
{more}
"""
ISSUE = "https://github.com/pytorch/pytorch/issues/123"
SCRIPT = "import torch\n<script>window.hacked = 1</script>"
TRIAGE = """
[failure.triage]
right = "eager"
because = "the page says so"
searched = "sums are off"
since = "2.9"
"""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("bugs")
    script = f"reproduction = '''\nassert 0, {SCRIPT!r}\n'''"
    entries = [
        ("sums are off by `one`", '["sum/a-f32", "sum/b"]', "cpu_avx2", ">=2.11", ISSUE, script + TRIAGE),
        ("flips are off", '"flip/a"', "cuda_sm90", "<2.13", "not reported", ""),
    ]
    for reason, cases, target, torch, issue, more in entries:
        words = {"reason": reason, "cases": cases, "target": target, "torch": torch, "issue": issue, "more": more}
        (folder / f"{target}.toml").write_text(BUG.format(**words), encoding="utf-8")
    found = known_bugs.bugs(known_failures.load(folder).failures)
    (folder / "bugs.html").write_text(page([], Cells(), Changes(), [bugs_page(found)]), encoding="utf-8")
    return (folder / "bugs.html").as_uri()


@pytest.fixture
def view(browser: Any, address: str) -> Iterator[Any]:
    yield from opened(browser, address)


def _rows(view: Any) -> list[str]:
    return [row.split("\t")[0] for row in view.locator(".bugs tbody tr").all_inner_texts()]


def test_a_page_without_runs_is_the_table_and_filters_are_in_its_address(view: Any) -> None:
    assert view.title() == "Known bugs (2) – conformance"
    assert view.locator(".bugs tbody tr").all_inner_texts() == [
        "Sums are off by one\tDoes not compile, or raises\t2.11, 2.13, 2.15\tcpu\t#123\t2",
        "Flips are off\tDoes not compile, or raises\t2.11\tcuda\tnot reported\t1",
    ]
    for name, value, rows in [
        ("operator", "flip", ["Flips are off"]), ("torch", "2.15", ["Sums are off by one"]),
        ("device", "cuda", ["Flips are off"]), ("upstream", "reported", ["Sums are off by one"]),
    ]:  # fmt: skip
        view.select_option(f"[name={name}]", value)
        assert _rows(view) == rows
        assert f"{name}={value}" in view.url
        view.reload()
        view.wait_for_selector(".bugs")
        assert _rows(view) == rows, "the address holds the filter"
        view.select_option(f"[name={name}]", "")
    view.fill("[name=q]", "sum/b off")
    assert _rows(view) == ["Sums are off by one"]


def test_a_bug_has_an_address_and_a_script_to_copy(view: Any) -> None:
    view.context.grant_permissions(["clipboard-read", "clipboard-write"])
    view.click("text=Sums are off by one")
    view.wait_for_selector("h1:has-text('Sums are off')")
    assert view.url.partition("#")[2].startswith("/bug/sums-are-off-by-one-")
    text = view.inner_text("main")
    for said in ("since\ntorch 2.9", "eager. the page says so", ">=2.11", "sum/a-f32"):
        assert said in text
    assert view.get_attribute("text=#123", "href") == ISSUE
    view.click("text=Copy")
    view.wait_for_selector("text=Copied")
    assert view.evaluate("navigator.clipboard.readText()") == f"assert 0, {SCRIPT!r}"
    assert view.evaluate("window.hacked") is None
    view.keyboard.press("j")
    view.wait_for_selector("h1:has-text('Flips are off')")


def test_each_known_bug_has_an_address_of_its_own() -> None:
    root = Path(known_bugs.__file__).parents[1]
    found = known_bugs.bugs(known_failures.load(root / "known_failures").failures)
    assert len({bug.id for bug in found}) == len(found) > 100


@pytest.mark.long("axe examines each page in a browser")
def test_axe_finds_nothing(view: Any) -> None:
    bug = view.get_attribute(".bugs a", "href")
    check_with_axe(view, ["#/page/known-bugs", bug, "#/bug/none"])


def test_an_unknown_bug_says_so(view: Any) -> None:
    show(view, "#/bug/none")
    assert "The report has no bug none." in view.inner_text("main")
