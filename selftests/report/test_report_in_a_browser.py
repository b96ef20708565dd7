"""The report in headless Chromium: matrix, filter, case, differences, links, hostile texts, accessibility, speed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browsing import check_with_axe, opened, show
from made_runs import EXCLUDED, FAILED, KNOWN, PASSED, TEXT, made_run, record

from conformance.harness import accounting
from conformance.report.changes import changes_of
from conformance.report.columns import cells_of
from conformance.report.further_pages import Section
from conformance.report.page import page
from conformance.report.states import state_of
from conformance.storage.check_results import CheckResult, Outcome
from conformance.storage.precedence import evidence
from conformance.storage.runs import Run
from conformance.storage.snapshots import Store

#: Shown as text, it is harmless. As HTML, it sets a variable of the page.
HOSTILE = "<img src=x onerror=\"window.hacked='yes'\"><script>window.hacked='yes'</script>"

#: Of the output, compiled is over its limit in the second bucket. The gradient has eager's bits.
PROFILES = [
    {
        "call": "ordinary",
        "tensor": f"output{HOSTILE}",
        "dtype": "float32",
        "buckets": ["-126 -126 0 0 4", "-3 -1 1.5 9 4.5"],
    },
    {"call": "ordinary", "tensor": "gradient of x", "dtype": "float32", "buckets": []},
]


UNSTORED = CheckResult(Outcome.FAILED, f"NoStoredCodeError: {accounting.NOTHING_STORED} 2.15")
PROBLEM = {"tensor": "output", "rule": "values", "call": "nan", "text": "two\n  lines", "error": math.inf,
           "factor": 0.0, "wrong_values": {"changes": {"NaN → 0": 3}, "share": 0.25, "off_by": 0.0}}  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    error = CheckResult(Outcome.FAILED, f"NumericsError: {HOSTILE} \x00\ud800")
    changed = TEXT.replace("in_ptr0[11L]", "in_ptr0[12L]")
    records = [
        record("flip/hflip-u8", "cpu_avx2", evidence="native"),
        record("flip/hflip-u8", "cuda_sm90", KNOWN, text=changed, problems=[PROBLEM]),
        record("flip/hflip-f32", "cpu_avx2", FAILED, error_profiles=PROFILES),
        record("flip/hflip-f32", "cpu_avx512", PASSED, shared_with="cpu_avx2"),
        record("flip/hflip-f32", "cuda_sm90", EXCLUDED),
        record("sum/rows-f32", "cpu_avx2", PASSED, missed=[{"fact": "kernels", "wanted": "1", "got": "2",
                                                            "reason": HOSTILE, "judgement": HOSTILE}]),
        record("sum/rows-f32", "cuda_sm90", error, text=TEXT.replace("11L", f"11L; // {HOSTILE}\n  auto y = 0")),
    ]  # fmt: skip
    return made_run(tmp_path_factory.mktemp("run"), records, selected=["sum/columns-f32-cpu_avx2"])


@pytest.fixture(scope="module")
def failed(run: Run) -> None:
    """What a failed item leaves in the run's folder."""
    folder = run.artifacts("flip/hflip-f32-cpu_avx2")
    files = {"numerics.txt": f"1 of 12 elements\n  inputs there  x = 0.5\n{HOSTILE}",
             "0_inference_graph.py": f"graph {HOSTILE}",
             "0_inference_ir_pre_fusion.txt": "ir before", "0_inference_output_code.py": "raw",
             "reproduce.py": f"print('{HOSTILE}')"}  # fmt: skip
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")


@pytest.fixture(scope="module")
def newer(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run of one case with torch 2.15, where a fact and the code differ."""
    text = TEXT.replace("1: flip", "2: flip").replace("11L]", "13L]")
    facts = {"kernels": f"2: flip {HOSTILE}"}
    unstored = {"numerics": PASSED, "code": UNSTORED}
    records = [record("flip/hflip-u8", "cpu_avx2", FAILED, torch="2.15.0", text=text, facts=facts),
               record("flip/hflip-f32", "cpu_avx512", PASSED, torch="2.15.0"),
               record("sum/rows-f32", "cpu_avx2", torch="2.15.0", checks=unstored)]  # fmt: skip
    return made_run(tmp_path_factory.mktemp("newer"), records, torch="2.15.0")


@pytest.fixture(scope="module")
def two_releases(run: Run, newer: Run, failed: None, tmp_path_factory: pytest.TempPathFactory) -> str:
    cells = cells_of([run, newer])
    row = {"case": "flip/hflip-u8", "eager": 4.0, "compiled": 8.0, "limit": 2.0, "slower": True, "why": [HOSTILE]}
    about = {"target": "cpu_avx2", "processor": "a CPU", "torch": "2.13.0", "threads": 1, "command": "bench"}
    times = Section("times", "Times", {"measurements": [{"about": about, "rows": [row], "stopped": 0}]})
    file = tmp_path_factory.mktemp("report") / "report.html"
    file.write_text(page([run, newer], cells, changes_of(cells), [times]), encoding="utf-8")
    return file.as_uri()


@pytest.fixture(scope="module")
def changed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A report about one change of the compiler that two torch releases have."""
    store = tmp_path_factory.mktemp("expected_code")
    targets = [(release, "cpu_avx2") for release in ("2.13", "2.15")]
    Store(store).merge({f"flip/{name}": dict.fromkeys(targets, TEXT) for name in "ab"})
    text = TEXT.replace("in_ptr0[11L]", "load_cached(in_ptr0[11L])")
    checks = {"numerics": PASSED, "code": CheckResult(Outcome.FAILED, "CodeError: facts changed:")}
    runs = []
    for release in ("2.13", "2.15"):
        records = [record(f"flip/{name}", "cpu_avx2", torch=f"{release}.0", text=text, store=str(store), checks=checks)
                   for name in "ab"]  # fmt: skip
        runs.append(made_run(tmp_path_factory.mktemp("run") / release, records, torch=f"{release}.0"))
    cells = cells_of(runs)
    file = tmp_path_factory.mktemp("report") / "report.html"
    file.write_text(page(runs, cells, changes_of(cells)), encoding="utf-8")
    return file.as_uri()


@pytest.fixture(scope="module")
def report(run: Run, tmp_path_factory: pytest.TempPathFactory) -> str:
    cells = cells_of([run])
    file = tmp_path_factory.mktemp("report") / "report.html"
    file.write_text(page([run], cells, changes_of(cells), title=HOSTILE), encoding="utf-8")
    return file.as_uri()


@pytest.fixture
def view(browser: Any, report: str) -> Iterator[Any]:
    """A page with the report's matrix."""
    yield from opened(browser, report)


@pytest.fixture
def view_of_two(browser: Any, two_releases: str) -> Iterator[Any]:
    """A page with the matrix of a report about two torch releases, with times."""
    yield from opened(browser, two_releases)


@pytest.fixture
def view_of_changes(browser: Any, changed: str) -> Iterator[Any]:
    """A page with the matrix of a report about two releases whose code changed."""
    yield from opened(browser, changed)


def _sum(view: Any) -> str:
    return " ".join(view.inner_text("#sum").split())


def test_counts_are_those_of_the_record(view: Any, run: Run) -> None:
    items = list(run.items())
    endings = [accounting.ending(item) for item in items] + ["not run"] * len(accounting.not_run(run, items))
    counts = [int(count) for count in view.locator(".count").all_inner_texts()]
    assert sum(counts) == len(endings) == 8
    assert _sum(view) == (
        "8 items = ✗ 2 wrong values + ∅ 1 not run + ~ 1 missed optimisation + ! 1 known failure + "
        "– 1 excluded by the case + ✓ 2 passed"
    )


def test_each_cell_of_the_matrix_has_the_counts_of_the_record(view: Any, run: Run) -> None:
    wanted: dict[tuple[str, str], Counter[str]] = {}
    for item in run.items():
        cell = wanted.setdefault((item.case.partition("/")[0], item.target), Counter())
        cell[state_of(item)] += 1
    wanted["sum", "cpu_avx2"]["not run"] += 1
    shown = {}
    for label in view.eval_on_selector_all(
        "td a", "all => all.map((each) => each.getAttribute('aria-label')).filter(Boolean)"
    ):
        name, _, counts = label.partition(": ")
        operator, _, target = name.partition(" on ")
        pairs = [each.partition(" ") for each in counts.split(", ")]
        shown[operator, target] = Counter({state: int(count) for count, _, state in pairs})
    assert shown == wanted


def test_each_column_says_how_far_its_items_were_followed(view: Any, run: Run) -> None:
    wanted: dict[str, Counter[str]] = {}
    for item in run.items():
        wanted.setdefault(item.target, Counter())[evidence(item)] += 1
    wanted["cpu_avx2"]["none"] += 1  # the item that did not run
    names = view.locator(".matrix thead th").all_inner_texts()[1:]
    cells = [text.split("\n") for text in view.locator("thead .evidence td").all_inner_texts()[1:]]
    shown = {
        name.split()[0]: Counter({word: int(count) for count, _, word in (line.partition(" ") for line in lines)})
        for name, lines in zip(names, cells, strict=True)
    }
    assert shown == wanted


def test_a_link_to_a_cell_opens_it_in_another_window(view: Any) -> None:
    href = view.get_attribute("td a[aria-label^='sum on cuda_sm90']", "href")
    other = view.context.new_page()
    other.goto(f"{view.url.partition('#')[0]}{href}")
    other.wait_for_selector("#sum")
    assert _sum(other) == "1 item = ✗ 1 wrong values"
    href = other.get_attribute("td a", "href")
    other.goto(f"{view.url.partition('#')[0]}{href}")
    other.wait_for_selector("h1:has-text('sum/rows-f32')")
    assert "on cuda_sm90, torch 2.13" in other.inner_text(".verdict")


def test_operators_are_sorted_as_asked(view: Any) -> None:
    def rows() -> list[str]:
        return [each.split()[0] for each in view.locator(".matrix tbody th").all_inner_texts()]

    assert rows() == ["flip", "sum"]
    view.fill("[name=q]", "rows")
    view.fill("[name=q]", "")
    view.select_option("[name=sort]", "cases")
    assert rows() == ["flip", "sum"]
    view.fill("[name=q]", "u8")
    show(view, "#/?sort=worst&q=-f32")
    assert rows() == ["flip", "flip/hflip-u8"]
    show(view, "#/?sort=worst&device=cuda&q=-hflip-f32")
    assert rows()[:2] == ["sum", "flip"]


def test_from_the_front_page_to_the_reason_in_three_clicks(view: Any) -> None:
    view.click(".matrix >> text=flip")
    view.click("a[aria-label^='flip/hflip-u8 on cpu_avx2']")
    view.wait_for_selector("h1:has-text('flip/hflip-u8')")
    assert "no: load index 11 - x0 is not contiguous in x0" in view.inner_text("main")
    assert "auto tmp0 = in_ptr0[11L];" in view.inner_text("main")


def test_filter_by_words_and_state_and_the_link_to_it(view: Any) -> None:
    view.fill("[name=q]", "HFLIP -u8")
    assert _sum(view) == "3 items = ✗ 1 wrong values + – 1 excluded by the case + ✓ 1 passed"
    view.check("[name=state][value='0']")
    assert _sum(view) == "1 item = ✗ 1 wrong values"
    link = view.url
    view.goto("about:blank")
    view.goto(link)
    view.wait_for_selector("#sum")
    assert _sum(view) == "1 item = ✗ 1 wrong values"
    view.click("text=Show all")
    assert _sum(view).startswith("8 items")


def test_one_case_side_by_side_with_another_target(view: Any) -> None:
    show(view, "#/case/flip/hflip-u8?target=cuda_sm90&torch=2.13")
    view.select_option("label:has-text('Side by side') select", label="cpu_avx2, torch 2.13")
    view.wait_for_selector("table.diff")
    assert view.locator("td.gone").all_inner_texts() == ["  auto tmp0 = in_ptr0[11L];"]
    assert view.locator("td.come").all_inner_texts() == ["  auto tmp0 = in_ptr0[12L];"]
    marked = view.evaluate("[...CSS.highlights.get('gone')].map((range) => range.toString()).join()")
    assert marked == "11L"


def test_errors_of_numerics_are_a_picture_with_its_text_and_numbers(view: Any) -> None:
    show(view, "#/case/flip/hflip-f32?target=cpu_avx2")
    view.wait_for_selector("svg[role=img]")
    said = (
        "compiled is over its limit at 2⁻³ to 2⁻¹ with 9 ulp, where 4.5 ulp are allowed. Eager's largest error is 1.5"
    )
    assert said in (view.locator("svg[role=img]").get_attribute("aria-label") or "")
    assert view.locator("figure path.over").count() == 1
    assert view.locator("figure path.compiled").count() == 1
    heights = view.eval_on_selector_all(
        "figure rect.allowed", "all => all.map((each) => Number(each.getAttribute('height')))"
    )
    assert 0 < heights[0] < heights[1], "4.5 is above 4"
    dots = view.eval_on_selector_all("figure circle.eager", "all => all.map((each) => Number(each.getAttribute('cy')))")
    assert dots[0] > dots[1], "0 is below 1.5"
    view.click("text=The numbers, in ulp")
    assert view.locator("figure tbody tr").all_inner_texts() == ["2⁻¹²⁶\t0\t0\t4", "2⁻³ to 2⁻¹\t1.5\t9\t4.5"]
    assert "Compiled gave eager's bits: gradient of x." in view.inner_text("main")


def test_a_target_that_shares_code_shows_the_errors_of_the_one_that_ran(view: Any) -> None:
    show(view, "#/case/flip/hflip-f32?target=cpu_avx512")
    view.wait_for_selector("svg[role=img]")
    assert "The code is that of cpu_avx2, which ran in place of cpu_avx512." in view.inner_text("main")


def test_numbers_that_json_does_not_have(view: Any) -> None:
    show(view, "#/case/flip/hflip-u8?target=cuda_sm90")
    assert "Infinity" not in view.inner_text("main")
    assert "the largest error is inf ulp" in view.inner_text(".problems")


def test_since_when_state_facts_and_code_are_so(view_of_two: Any) -> None:
    show(view_of_two, "#/case/flip/hflip-u8?target=cpu_avx2&torch=2.15")
    rows = view_of_two.locator("table.since tbody tr").all_inner_texts()
    assert rows == ["2.15\tstate\tpassed\twrong values", f"2.15\tkernels\tnone\t2: flip {HOSTILE}"]
    view_of_two.click("text=2.13 → 2.15")
    view_of_two.wait_for_selector("table.diff")
    assert "auto tmp0 = in_ptr0[13L];" in "".join(view_of_two.locator("td.come").all_inner_texts())
    show(view_of_two, "#/case/flip/hflip-f32?target=cpu_avx512&torch=2.15")
    assert "State, facts and code are the same on torch 2.13, 2.15." in view_of_two.inner_text("main")
    show(view_of_two, "#/case/sum/rows-f32?target=cpu_avx2&torch=2.15")
    text = view_of_two.inner_text("main")
    assert "Nothing is stored for torch 2.15, so its state is not compared." in text
    assert "Facts and code are the same on torch 2.13, 2.15." in text
    show(view_of_two, "#/case/sum/rows-f32?target=cuda_sm90")
    assert "Since when" not in view_of_two.inner_text("main")


def test_times_of_a_case_are_on_its_page(view_of_two: Any) -> None:
    show(view_of_two, "#/case/flip/hflip-u8?target=cpu_avx2&torch=2.13")
    assert view_of_two.locator("main > .bars .value").all_inner_texts() == [
        "eager 4.00 µs",
        "compiled 8.00 µs",
        "limit 2.00 µs",
    ]
    assert f"Why slower: {HOSTILE}" in view_of_two.inner_text("main")
    show(view_of_two, "#/case/flip/hflip-u8?target=cuda_sm90")
    assert view_of_two.locator("main > .bars").count() == 0


def test_a_failed_item_shows_message_inputs_graphs_and_reproduction(view_of_two: Any) -> None:
    show(view_of_two, "#/case/flip/hflip-f32?target=cpu_avx2")
    text = view_of_two.inner_text("main")
    assert "Why numerics failed" in text
    assert "inputs there  x = 0.5" in text
    assert view_of_two.locator("summary").all_inner_texts()[-2:] == [
        "0_inference_graph.py",
        "0_inference_ir_pre_fusion.txt",
    ]
    view_of_two.click("text=0_inference_graph.py")
    assert f"graph {HOSTILE}" in view_of_two.inner_text("main")
    assert f"print('{HOSTILE}')" in view_of_two.inner_text(".copy >> nth=-1")
    assert "reproduce.py, with its inputs, is in failures/flip/hflip-f32-cpu_avx2 of the run run" in text
    assert view_of_two.evaluate("window.hacked") is None


def test_an_item_that_did_not_fail_says_how_to_get_graphs(view_of_two: Any) -> None:
    show(view_of_two, "#/case/flip/hflip-u8?target=cpu_avx2&torch=2.13")
    command = "python -m conformance show flip/hflip-u8 --target cpu_avx2 --html"
    assert command in view_of_two.inner_text("main")


def test_a_change_shows_its_texts_before_and_after(view_of_changes: Any) -> None:
    view = view_of_changes
    view.click("nav >> text=Changes (2)")
    view.wait_for_selector(".hunk .come")
    assert [each.split(" torch ")[1] for each in view.locator("h2").all_inner_texts()] == ["2.13", "2.15"]
    assert view.locator(".hunk .come").first.inner_text() == "+  auto tmp0 = load_cached(in_ptr0[11L]);"
    view.locator("h2 a").nth(1).click()
    view.wait_for_selector("h1 code")
    assert "2 texts: " in view.inner_text("main")
    assert "torch 2.15." in view.inner_text("main")
    view.click("text=flip/b on cpu_avx2")
    view.wait_for_selector("table.diff")
    assert view.locator("td.gone").all_inner_texts() == ["  auto tmp0 = in_ptr0[11L];"]
    assert view.locator("td.come").all_inner_texts() == ["  auto tmp0 = load_cached(in_ptr0[11L]);"]
    assert "2.15.0" in view.inner_text("dl.about")
    assert view.evaluate("document.querySelector('table.diff').getBoundingClientRect().top") < 500


@pytest.mark.long("axe examines many pages in a browser")
def test_axe_finds_nothing_in_changes_times_and_failures(view_of_changes: Any, view_of_two: Any) -> None:
    view_of_changes.locator("nav >> text=Changes (2)").click()
    change = view_of_changes.get_attribute("h2 a", "href")
    check_with_axe(view_of_changes, ["#/changes", change, "#/case/flip/b"])
    case = "#/case/flip/hflip-u8?target=cpu_avx2&torch=2.15"
    check_with_axe(view_of_two, ["#/page/times", case, "#/case/flip/hflip-f32?target=cpu_avx2"])


def test_a_long_list_of_cases_grows_by_a_button(browser: Any, tmp_path: Path) -> None:
    run = made_run(tmp_path / "run", [record(f"flip/{number:03}", "cpu_avx2") for number in range(130)])
    cells = cells_of([run])
    (tmp_path / "report.html").write_text(page([run], cells, changes_of(cells)), encoding="utf-8")
    view = browser.new_page()
    view.goto(f"{(tmp_path / 'report.html').as_uri()}#/operator/flip")
    view.wait_for_selector("tbody tr")
    assert (view.locator("tbody tr").count(), view.locator("button:visible").last.inner_text()) == (
        50,
        "Show more: 50 of 130 cases are shown",
    )
    view.locator("button:visible").last.click()
    assert view.locator("tbody tr").count() == 130
    assert view.locator("button:has-text('Show more')").is_hidden()
    view.close()


def test_cases_are_sorted_by_their_worst_state(view: Any) -> None:
    show(view, "#/operator/flip?sort=worst")
    assert view.locator(".matrix tbody th").all_inner_texts() == ["flip/hflip-f32", "flip/hflip-u8"]
    show(view, "#/operator/sum?sort=worst")
    assert view.locator(".matrix tbody th").all_inner_texts() == ["sum/rows-f32", "sum/columns-f32"]


def test_an_item_that_did_not_run_says_so(view: Any) -> None:
    show(view, "#/case/sum/columns-f32")
    view.wait_for_selector("h1:has-text('sum/columns-f32')")
    assert "was selected and did not run" in view.inner_text("main")


@pytest.mark.long("its ten pages are shown one after the other in a browser")
def test_html_from_outside_is_shown_and_not_run(view: Any) -> None:
    for address in ("#/", "#/operator/sum", "#/case/sum/rows-f32?target=cuda_sm90", "#/changes",
                    "#/case/sum/rows-f32?target=cpu_avx2", "#/case/flip/hflip-f32?target=cpu_avx2",
                    "#/runs", "#/need/0", "#/?q=hacked", "#/case/no/such"):  # fmt: skip
        show(view, address)
        view.wait_for_timeout(100)
        assert view.evaluate("window.hacked") is None, address
        assert view.inner_text(".brand") == HOSTILE, address
        assert HOSTILE in view.title(), address
        if "cuda" in address:
            assert view.inner_text("main").count(HOSTILE) >= 2  # in the error, and in the code
        if "rows" in address and "avx2" in address:
            assert view.inner_text("main").count(HOSTILE) == 2  # in the reason, and in the judgement


def test_the_keyboard_alone_reaches_a_case(view: Any) -> None:
    for _ in range(60):
        view.keyboard.press("Tab")
        if view.evaluate("document.activeElement.textContent") == "flip":
            break
    view.keyboard.press("Enter")
    view.wait_for_selector("h1:has-text('flip')")
    for _ in range(60):
        view.keyboard.press("Tab")
        if view.evaluate("document.activeElement.textContent") == "flip/hflip-u8":
            break
    view.keyboard.press("Enter")
    view.wait_for_selector("h1:has-text('flip/hflip-u8')")


@pytest.mark.long("axe examines many pages in a browser")
def test_axe_finds_nothing(view: Any) -> None:
    addresses = [
        "#/operator/flip",
        "#/case/flip/hflip-f32?target=cpu_avx2",
        "#/case/flip/hflip-u8?target=cuda_sm90&with=2.13+cpu_avx2",
        "#/case/sum/columns-f32",
        "#/case/no/such",
        "#/runs",
        "#/nosuch",
    ]
    check_with_axe(view, addresses)
