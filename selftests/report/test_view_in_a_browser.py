"""`view` in headless Chromium: links, forms, the policy, and accessibility."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browsing import check_with_axe, opened
from served import CHANGED, Project, Served, served

pytestmark = pytest.mark.long("it starts a browser and compiles functions for several targets")

PAGES = ("", "search?q=flip", "review/after", "kernels", "run/after", "compare?a=before&b=after")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.chdir(tmp_path)
    return Project(tmp_path)


@pytest.fixture
def started(project: Project) -> Iterator[Served]:
    with served(project.root, can_accept=True) as started:
        yield started


@pytest.fixture
def view(browser: Any, started: Served) -> Iterator[Any]:
    """A page with the runs."""
    yield from opened(browser, started.address, shown="body", own=started.address)


def test_from_the_runs_to_a_case_and_back(view: Any) -> None:
    view.get_by_role("link", name="after", exact=True).click()
    view.wait_for_selector("html[data-shown]", state="attached")
    assert view.title() != "taken"
    view.get_by_role("link", name="All runs").click()
    view.get_by_role("button", name="Compare A with B").click()
    view.wait_for_selector("text=What differs from A to B")
    view.go_back()
    view.get_by_role("searchbox").fill("flip/changed")
    view.keyboard.press("Enter")
    view.get_by_role("link", name="flip/changed cpu_avx2").first.click()
    view.wait_for_selector("html[data-shown]", state="attached")
    assert view.get_by_role("heading", name="flip/changed").count()


def test_accept_stores_what_the_page_shows(view: Any, project: Project) -> None:
    view.get_by_role("link", name="Review after").click()
    view.get_by_role("button", name="Reject cause 1").click()
    assert "its items were not stored" in view.get_by_role("status").inner_text()
    view.get_by_role("button", name="Accept cause 1").click()
    assert "1 changed" in view.get_by_role("status").inner_text()
    assert project.stored() == CHANGED


def test_a_page_of_another_site_can_send_nothing(
    browser: Any, started: Served, project: Project, tmp_path: Path
) -> None:
    target = f"{started.address}review/after"
    evil = tmp_path / "evil.html"
    evil.write_text(
        f'<form method="post" action="{target}"><input name="cause" value="new"><button name="decision" value="accept">'
        f'Send</button></form><iframe src="{started.address}"></iframe>',
        encoding="utf-8",
    )
    page = browser.new_page()
    page.goto(evil.as_uri())
    assert "Runs" not in [frame.title() for frame in page.frames]
    page.get_by_role("button", name="Send").click()
    page.wait_for_selector("text=the request comes from a page of another origin")
    page.close()
    assert project.stored() != CHANGED


def test_axe_finds_nothing(view: Any, started: Served) -> None:
    def go(view: Any, address: str) -> None:
        view.goto(started.address + address)
        if address.startswith(("run", "compare")):
            view.wait_for_selector("html[data-shown]", state="attached")

    check_with_axe(view, PAGES, go)


def test_axe_finds_nothing_once_a_function_is_compiled(view: Any, started: Served) -> None:
    def go(view: Any, targets: str) -> None:
        view.goto(f"{started.address}kernels")
        for name in targets.split():
            view.check(f"[name=target][value={name}]")
        view.get_by_role("button", name="Run and compile").click(timeout=120_000)
        view.wait_for_selector("h2", timeout=120_000)

    check_with_axe(view, ["cpu_avx2 cuda_sm90"], go)
