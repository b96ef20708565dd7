"""Sphinx's configuration of the documentation site. build.py makes the sources, and copies this file beside them."""

import re
from pathlib import Path
from typing import Any

import conformance

project = "conformance"
author = "the conformance developers"
version = release = conformance.__version__
extensions = ["myst_parser", "sphinx_copybutton", "sphinxcontrib.programoutput"]
myst_heading_anchors = 4
myst_enable_extensions = ["linkify"]
smartquotes = False  # "--device" is an option, and not a dash
highlight_language = "text"  # of blocks that name no language: most are of a terminal
suppress_warnings = ["myst.header"]  # a page may begin with a heading of the second level
exclude_patterns = ["_files", "checkout"]
html_theme = "furo"
html_title = f"conformance {release}"
html_static_path = ["_static"]
html_extra_path = ["_extra"]
html_show_sphinx = False
programoutput_prompt_template = "$ {command}\n{output}"


#: What the theme leaves out: names of its landmarks, and the heading of the search.
_NAMED = {
    '<aside class="sidebar-drawer">': '<aside class="sidebar-drawer" aria-label="Pages">',
    '<aside class="toc-drawer': '<aside aria-label="On this page" class="toc-drawer',
    '<div id="search-results">': '<h1 class="visually-hidden">Search</h1><div id="search-results">',
    '<div class="content-icon-container">': '<div class="content-icon-container" role="region" aria-label="View">',
}


def setup(app: Any) -> None:
    app.connect("html-page-context", _make_accessible, priority=900)  # after the theme's own
    app.connect("build-finished", _name_landmarks)


def _name_landmarks(app: Any, _error: Exception | None) -> None:
    for page in Path(app.outdir).rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        for before, after in _NAMED.items():
            text = text.replace(before, after)
        page.write_text(text, encoding="utf-8")


def _make_accessible(_app: Any, _page: str, _template: str, context: dict[str, Any], _doctree: object) -> None:
    """Gives captions of the contents a level, lets the keyboard scroll code and tables, makes an empty head a cell."""
    for name, before, after in (
        ("furo_navigation_tree", 'role="heading"', 'role="heading" aria-level="2"'),
        ("body", '<p class="caption" role="heading">', '<p class="caption" role="heading" aria-level="2">'),
        ("body", "<pre>", '<pre tabindex="0">'),
        ("body", '<div class="table-wrapper', '<div tabindex="0" class="table-wrapper'),
        ("body", '<th class="head[^"]*"><p></p></th>', "<td></td>"),
    ):
        if name in context:
            context[name] = re.sub(before, after, context[name])
