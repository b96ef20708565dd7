"""Pages in headless Chromium: opened, looked at, and checked for errors, requests and accessibility."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "ci" / "documentation"))

import accessibility

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
OPTIONS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]


def opened(
    browser: Any, address: str, width: int = 1200, shown: str = "html[data-shown]", own: str = "file:"
) -> Iterator[Any]:
    """A page that has what `shown` selects. The test fails for an error on the console, and for a request elsewhere.

    `own`: how the addresses begin that it may ask for.
    """
    context = browser.new_context(viewport={"width": width, "height": 900})
    context.set_default_timeout(10_000)
    view = context.new_page()
    errors, requests = [], []
    view.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    view.on("pageerror", lambda error: errors.append(str(error)))
    view.on("request", lambda request: requests.append(request.url))
    view.goto(address)
    view.wait_for_selector(shown, state="attached")
    yield view
    context.close()
    assert errors == []
    assert [url for url in requests if not url.startswith((own, "data:"))] == []


def show(view: Any, address: str) -> None:
    """Goes to an address of the report."""
    view.evaluate(f"location.hash = {address!r}")
    view.wait_for_selector(f"html[data-shown='{address}']", state="attached")


def check_with_axe(view: Any, addresses: Iterable[str], go: Callable[[Any, str], None] = show) -> None:
    """Fails for a finding of axe, and for a page that is wider than the window: in both schemes, at both widths.

    `go`: takes the page to an address.
    """
    pytest.importorskip("axe_playwright_python", reason="pip install -e '.[dev]'")
    found = []
    for address in addresses:
        go(view, address)
        found += [f"{address}, {each}" for each in accessibility.findings(view)]
    assert found == [], "\n".join(found)
