"""The report answers: what needs someone, why, since when, with which command; search, keys and history."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from browsing import check_with_axe, opened, show
from made_runs import FAILED, KNOWN, PASSED, TEXT, made_run, record

from conformance.harness import accounting
from conformance.report.changes import changes_of
from conformance.report.columns import cells_of
from conformance.report.further_pages import Section
from conformance.report.page import page
from conformance.storage.check_results import CheckResult, Outcome
from conformance.storage.runs import Run
from conformance.storage.snapshots import Store

CASES = """
from conformance import case, tensor

@case(x=tensor(20))
def test_some(x):
    return x.flip(0)  # <b>the case</b>
"""
RELU = TEXT.replace("cpp_fused_flip_0", "cpp_fused_relu_7")
#: A page of Markdown that is wider than a phone.
WIDE = f"<h1>Wide</h1><h2><code>{'x' * 99}</code></h2><table><thead><tr>{'<th>name</th>' * 20}</tr></thead></table>"
OPTIONS = {"seed": "3", "no-emulation": True, "inductor-config": ["cpp.simdlen=1"], "baseline": "before it"}


def _failed(detail: str) -> CheckResult:
    return CheckResult(Outcome.FAILED, detail)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A run with each kind of failure, whose code is compared with a store."""
    root = tmp_path_factory.mktemp("project")
    store, file = root / "expected_code", root / "ops" / "test_some.py"
    file.parent.mkdir()
    file.write_text(CASES, encoding="utf-8")
    long = TEXT + "".join(f"    line_{number} = {number}\n" for number in range(50))
    Store(store).merge({f"sum/{name}": {("2.13", "cpu_avx2"): long} for name in ("a", "b")})
    changed = {"store": str(store), "text": long.replace("11L]", "12L]"), "checks": {"code": _failed("CodeError: x")}}
    unstored = {"code": _failed(f"NoStoredCodeError: {accounting.NOTHING_STORED} 2.13")}
    records = [
        record("sum/a", "cpu_avx2", **changed), record("sum/b", "cpu_avx2", **changed),
        record("sum/c", "cpu_avx2", checks=unstored),
        record("relu/a", "cpu_avx2", FAILED, text=RELU), record("relu/a", "cuda_sm90", text=RELU, evidence="compiled"),
        record("relu/b", "cpu_avx2", checks={"requirements": _failed("RequirementError: relu/b: kernels: 2")}),
        record("relu/c", "cpu_avx2", checks={"compile": _failed("IndexError: out of range")}),
        record("relu/d", "cpu_avx2", KNOWN, text=long),
        *(record(f"relu/passes-{number:02}", "cpu_avx2", text=long) for number in range(40)),
        record("relu/passes-39", "cuda_sm90", CheckResult(Outcome.KNOWN, "on cuda")),
    ]  # fmt: skip
    run = made_run(root / "nightly", [dataclasses.replace(each, file=str(file)) for each in records])
    description = run.description() | {"machine": {"processor": "A <b>CPU</b>", "cores": 2, "gpus": {}}}
    (run.folder / "run.json").write_text(json.dumps(description), encoding="utf-8")
    return _written(root, [run], [Section("wide", "Wide", {"html": WIDE})])


@pytest.fixture(scope="module")
def configured(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A run with options, whose code is compared with that of another run."""
    root = tmp_path_factory.mktemp("project")
    made_run(root / ".conformance" / "runs" / "before it", [record("sum/a", "cpu_avx2")])
    changed = record("sum/a", "cpu_avx2", text=RELU, checks={"code": _failed("CodeError: x"), "numerics": FAILED})
    run = made_run(root / "with_options", [changed])
    options = {"options": OPTIONS, "inductor_config": {"cpp.simdlen": 1}, "root": str(root)}
    (run.folder / "run.json").write_text(json.dumps(run.description() | options), encoding="utf-8")
    return _written(root, [run])


def _written(folder: Path, runs: list[Run], sections: Sequence[Section] = ()) -> str:
    cells = cells_of(runs)
    file = folder / "report.html"
    file.write_text(page(runs, cells, changes_of(cells, runs), sections), encoding="utf-8")
    return file.as_uri()


@pytest.fixture
def view(browser: Any, report: str) -> Iterator[Any]:
    yield from opened(browser, report)


@pytest.fixture
def view_of_options(browser: Any, configured: str) -> Iterator[Any]:
    yield from opened(browser, configured)


def test_the_first_screen_says_what_needs_someone_by_severity(view: Any) -> None:
    assert view.locator("#needs .tag").all_inner_texts() == [
        "✗ wrong values", "☠ crash", "≠ requirement not met", "Δ code changed", "+ not stored"
    ]  # fmt: skip
    assert view.evaluate("document.querySelector('#needs').getBoundingClientRect().bottom") < 900
    (about,) = view.locator(".about-runs tbody tr").all_inner_texts()
    assert about.split("\t") == [
        "nightly", "2.13.0, Triton 3.7.1", "none", "what is stored", "A <b>CPU</b>, 2 cores", "2026-11-24 07:00:00"
    ]  # fmt: skip
    view.click("#needs >> text=out of range")
    view.click("text=relu/c on cpu_avx2")
    view.wait_for_selector("h1:has-text('relu/c')")
    assert view.inner_text(".verdict") == "☠ crash on cpu_avx2, torch 2.13"


def test_a_cell_has_a_stripe_for_each_state_as_wide_as_its_share(view: Any) -> None:
    stripes = "document.querySelector(\"[aria-label^='relu on cpu_avx2']\").parentElement.style.backgroundImage"
    shades = [part.split(")") for part in view.evaluate(stripes).split("var(--")[1:]]
    assert [(name, text.strip(" ,")) for name, text, *_ in shades] == [
        ("s-wrong-values", "0% 4%"), ("s-crash", "4% 8%"), ("s-requirement-not-met", "8% 12%"),
        ("s-known-failure", "12% 16%"), ("s-passed", "16% 100%"),
    ]  # fmt: skip


def test_filter_by_the_check_that_failed(view: Any) -> None:
    assert view.locator("[name=check] option").all_inner_texts() == [
        "any or none", "compile", "numerics", "requirements", "code"
    ]  # fmt: skip
    view.select_option("[name=check]", "code")
    assert " ".join(view.inner_text("#sum").split()) == "3 items = Δ 2 code changed + + 1 not stored"
    assert "check=code" in view.url
    view.check("label:has-text('not stored') [name=state]")
    assert view.locator(".matrix tbody th").all_inner_texts() == ["sum 1", "sum/c"]


def test_the_head_of_a_case_has_state_evidence_and_targets_then_what_changed(view: Any) -> None:
    show(view, "#/case/sum/b?target=cpu_avx2")
    assert view.inner_text(".verdict") == "Δ code changed on cpu_avx2, torch 2.13"
    assert view.inner_text(".ladder .reached") == "✓ run on the CPU"
    assert view.locator("h2").all_inner_texts()[:2] == ["What changed", "The case"]
    assert view.locator("td.gone").all_inner_texts() == ["  auto tmp0 = in_ptr0[11L];"]
    assert view.locator("td.come").all_inner_texts() == ["  auto tmp0 = in_ptr0[12L];"]
    assert view.locator(".diff td span.k").count() > 2, "both sides are coloured"
    assert "return x.flip(0)  # <b>the case</b>" in view.inner_text("main")
    view.evaluate("location.hash = '#/case/relu/a'")
    view.wait_for_selector("h1:has-text('relu/a')")
    assert view.locator(".tabs a").all_inner_texts() == ["✗ cpu_avx2", "✓ cuda_sm90"]
    assert view.inner_text(".tabs [aria-current]") == "✗ cpu_avx2"
    view.click(".tabs >> text=cuda_sm90")
    view.wait_for_selector(".ladder .reached:has-text('kernels compiled to binaries')")
    assert view.title() == "relu/a – cuda_sm90 – conformance"
    show(view, "#/case/relu/passes-39")
    assert view.inner_text(".tabs [aria-current]") == "! cuda_sm90", "the worst target"


def test_equal_lines_open(view: Any) -> None:
    show(view, "#/case/sum/a?target=cpu_avx2")
    assert "line_40 = 40" not in view.inner_text(".diff")
    view.click("button:has-text('equal lines')")
    assert view.inner_text(".diff").count("line_40 = 40") == 2
    assert view.locator(".fold").count() == 0


def test_j_and_k_go_through_the_cases_that_were_listed(view: Any) -> None:
    view.fill("[name=q]", "relu -passes")
    view.click(".matrix >> text=relu/b")
    view.wait_for_selector("h1:has-text('relu/b')")
    view.keyboard.press("j")
    view.wait_for_selector("h1:has-text('relu/c')")
    view.keyboard.press("j")
    view.wait_for_selector("h1:has-text('relu/d')")
    view.keyboard.press("j")
    assert view.inner_text("h1") == "relu/d", "the last one of the list"
    for name in "cba":
        view.keyboard.press("k")
        view.wait_for_selector(f"h1:has-text('relu/{name}')")


def test_search_finds_kernels_facts_and_errors(view: Any) -> None:
    show(view, "#/changes")
    view.keyboard.press("/")
    view.wait_for_selector("[name=q]:focus")
    for words, cases in {
        "fused_relu_7": ["relu/a"], "numericserror": ["relu/a"], "too large": ["relu/d"], "kernels: 2": ["relu/b"],
        "no_such_thing": [],
    }.items():  # fmt: skip
        view.fill("[name=q]", words)
        found = ".matrix >> nth=1 >> tbody th"
        view.wait_for_function(
            "(count) => document.querySelectorAll('.matrix')[1].querySelectorAll('tbody th').length === count",
            arg=len(cases),
        )
        assert view.locator(found).all_inner_texts() == cases
    view.fill("[name=q]", "out of range")
    view.click("#found a")
    view.wait_for_selector("h1:has-text('out of range')")
    view.keyboard.press("Control+k")
    view.wait_for_selector("[name=q]:focus")


def test_back_finds_the_place_that_one_came_from(view: Any) -> None:
    show(view, "#/operator/relu")
    view.evaluate("document.querySelector('.scroll').scrollTop = 0; window.scrollTo(0, 300)")
    view.wait_for_function("window.scrollY > 100")
    place = view.evaluate("window.scrollY")
    view.wait_for_timeout(100)
    view.evaluate("[...document.querySelectorAll('tbody th a')].at(-1).click()")
    view.wait_for_selector("h1:has-text('relu/passes-39')")
    assert view.evaluate("window.scrollY") == 0
    view.go_back()
    view.wait_for_selector("h1:text-is('relu')")
    view.wait_for_function(f"window.scrollY === {place}")
    view.go_forward()
    view.wait_for_selector("h1:has-text('relu/passes-39')")


def test_the_heads_of_a_long_table_stay(view: Any) -> None:
    show(view, "#/operator/relu")
    view.evaluate("document.querySelector('.scroll').scrollTop = 400")
    box = view.evaluate("document.querySelector('.scroll').getBoundingClientRect().top")
    assert abs(view.evaluate("document.querySelector('.scroll thead').getBoundingClientRect().top") - box) < 3


def test_each_command_has_the_options_of_its_run(view_of_options: Any) -> None:
    view = view_of_options
    (about,) = view.locator(".about-runs tbody tr").all_inner_texts()
    assert "--seed 3 --no-emulation --inductor-config cpp.simdlen=1\tthe run before it\t" in about
    show(view, "#/case/sum/a?target=cpu_avx2")
    assert view.locator(".copy pre").all_inner_texts() == [
        (
            "pytest 'ops/test_some.py::test_some[sum/a-cpu_avx2]' --target cpu_avx2 --seed 3 --no-emulation "
            "--inductor-config cpp.simdlen=1 --baseline 'before it'"
        ),
        "python -m conformance show sum/a --target cpu_avx2 --config cpp.simdlen=1 --html",
    ]
    assert "cpp_fused_flip_0" in "".join(view.locator("td.gone").all_inner_texts()), "compared with the baseline"
    show(view, "#/changes")
    command = "python -m conformance review with_options --baseline 'before it'"
    assert view.locator(".copy pre").all_inner_texts() == [command]


def test_no_script_but_that_of_the_page_runs(browser: Any, report: str) -> None:
    """Even where HTML from outside came into the page."""
    view = browser.new_page()
    refused = []
    view.on("console", lambda message: refused.append(message.text))
    view.goto(report)
    view.wait_for_selector("#needs")
    view.evaluate("document.getElementById('main').innerHTML = '<img src=x onerror=\"window.hacked = 1\">'")
    view.evaluate("document.body.append(Object.assign(document.createElement('script'), {text: 'window.hacked = 2'}))")
    view.wait_for_timeout(200)
    assert view.evaluate("window.hacked") is None
    assert sum("Content Security Policy" in text for text in refused) >= 2
    view.close()


def test_a_report_without_failures_says_so(browser: Any, tmp_path: Path) -> None:
    run = made_run(tmp_path / "run", [record("flip/a", "cpu_avx2", PASSED)])
    for view in opened(browser, _written(tmp_path, [run])):
        assert view.inner_text("#needs") == "Nothing: no check fails, and every item ran."


def test_axe_finds_nothing_on_the_first_page(view: Any) -> None:
    check_with_axe(view, ["#/"])


@pytest.mark.long("axe examines each page in a browser")
def test_axe_finds_nothing(view: Any) -> None:
    addresses = [
        "#/?q=relu&check=numerics",
        "#/?q=nosuch",
        "#/need/0",
        "#/page/wide",
        "#/case/sum/b",
        "#/case/relu/a?target=cuda_sm90",
    ]
    check_with_axe(view, addresses)
