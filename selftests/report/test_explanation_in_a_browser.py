"""The page of an explanation: lines linked in both directions, reasons, tabs, keys, and hostile texts."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest
from browsing import check_with_axe, opened, show

from conformance.compiler.explanation import Explanation, Pane
from conformance.report.changes import Changes
from conformance.report.columns import Cells
from conformance.report.explanations import explanations_page
from conformance.report.page import page

HOSTILE = "<script>window.hacked = 1</script>"


def _explanation(target: str, constant: str) -> dict[str, Any]:
    kernel = ['extern "C" void kernel(', f"auto tmp0 = {constant};", "tmp1 = tmp0.exp();", "call()"]
    panes = [
        Pane("source", ["def f(x):", "    y = x * 3", f"    return y.exp()  # {HOSTILE}"]),
        Pane("graph", ["class G:", "mul = x * 3", "exp = mul.exp()"]),
        Pane("IR", ["op0: SchedulerNode", "mul = ops.mul", "exp = ops.exp"]),
        Pane("kernel", kernel, {0: ["at least 5 µs", f"not fused: {HOSTILE}"]}),
    ]
    links = [[(1, 1), (2, 2)], [(1, 0), (1, 1), (2, 0), (2, 2)], [(0, 0), (1, 1), (2, 2), (0, 3)]]
    return dataclasses.asdict(Explanation(target, "generated", f"kernels 1 {HOSTILE}", "why", panes, links))


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("explained") / "page.html"
    section = explanations_page("a/b", [_explanation("cpu_avx2", "3"), _explanation("cuda_sm90", "4")])
    file.write_text(page([], Cells(), Changes(), [section], "a/b"), encoding="utf-8")
    return file.as_uri()


@pytest.fixture
def view(browser: Any, address: str) -> Iterator[Any]:
    yield from opened(browser, address)


def _marked(view: Any) -> list[list[int]]:
    """The marked lines of each pane."""
    return [
        [int(line.get_attribute("data-line")) for line in box.locator(".linked").all()]
        for box in view.locator(".explain pre").all()
    ]


def _click(view: Any, pane: int, line: int) -> None:
    view.locator(".explain pre").nth(pane).locator(f"[data-line='{line}']").click()


def test_a_source_line_marks_its_lines_to_the_right(view: Any) -> None:
    _click(view, 0, 1)
    assert _marked(view) == [[1], [1], [0, 1], [0, 1, 3]]
    assert view.inner_text("[role=status]").startswith("Line 2 of source: 1 line of graph, 2 lines of IR, 3 lines")


def test_a_line_of_the_kernel_marks_its_lines_to_the_left(view: Any) -> None:
    _click(view, 3, 2)
    assert _marked(view) == [[2], [2], [2], [2]]
    _click(view, 3, 2)
    assert _marked(view) == [[], [], [], []]


def test_the_address_keeps_the_line_and_the_target(view: Any, address: str) -> None:
    show(view, "#/page/explain?target=cuda_sm90")
    assert "auto tmp0 = 4;" in view.inner_text(".explain")
    _click(view, 3, 1)
    kept = view.evaluate("location.hash")
    assert kept == "#/page/explain?target=cuda_sm90&line=3-1"
    view.goto("about:blank")
    view.goto(address + kept)
    view.wait_for_selector(".explain [aria-current]")
    assert _marked(view) == [[1], [1], [1], [1]]


def test_arrow_keys_go_to_the_next_line_with_links(view: Any) -> None:
    view.locator(".explain pre").nth(1).focus()
    view.keyboard.press("ArrowDown")
    assert _marked(view)[1] == [1]
    view.keyboard.press("ArrowDown")
    assert _marked(view)[1] == [2]
    view.keyboard.press("ArrowUp")
    assert _marked(view)[1] == [1]


def test_reasons_stand_at_their_line_and_hostile_texts_are_texts(view: Any) -> None:
    reasons = view.locator(".pane-3 .line[data-line='0'] ~ .reason").all_inner_texts()
    assert reasons == ["at least 5 µs", f"not fused: {HOSTILE}"]
    assert HOSTILE in view.inner_text(".pane-0")
    assert view.evaluate("window.hacked") is None


@pytest.mark.long("axe examines each page in a browser")
def test_axe_finds_nothing(view: Any) -> None:
    check_with_axe(view, ["#/page/explain", "#/page/explain?target=cuda_sm90&line=3-1"])
