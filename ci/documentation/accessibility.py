"""Checks with axe that everyone can read a page: in both colour schemes, on a phone and on a screen."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import example_report

#: Colour schemes, each with the width of a phone and of a screen, in pixels.
VIEWS = tuple(itertools.product(("light", "dark"), (390, 1440)))
#: Each scheme and each width once. What stands around the text, such as a sidebar, is the same on all pages of a site.
FEWER = (("light", 390), ("dark", 1440))


def findings(view: Any, views: tuple[tuple[str, int], ...] = VIEWS) -> Iterator[str]:
    """One line for each finding of axe on the page that a browser shows, and one if it is wider than its window."""
    from axe_playwright_python.sync_playwright import Axe

    axe = Axe()
    for scheme, width in views:
        view.emulate_media(color_scheme=scheme)
        view.set_viewport_size({"width": width, "height": 900})
        where = f"{scheme}, {width} px"
        for each in axe.run(view).response["violations"]:
            yield f"{where}: {each['id']}: {' '.join(node['html'] for node in each['nodes'][:3])}"
        if view.evaluate("document.documentElement.scrollWidth") > width:
            yield f"{where}: wider than the window"


def problems(site: Path) -> Iterator[str]:
    """One line for each finding on a page of the built site. The selftests check the pages of reports.

    The home page is checked in all views, the others in fewer. Of the pages of source files, which are all alike, the
    first one is checked.
    """
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=example_report.chromium(), args=example_report.OPTIONS)
        view = browser.new_page()
        left_out = {site / example_report.ADDRESS, *sorted(site.glob("source/**/*.html"))[1:]}
        for path in sorted({*site.rglob("*.html")} - left_out):
            view.goto(path.resolve().as_uri())
            views = VIEWS if path == site / "index.html" else FEWER
            yield from (f"{path.relative_to(site)}: {finding}" for finding in findings(view, views))
        browser.close()
