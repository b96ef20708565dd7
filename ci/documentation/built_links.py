"""Checks that the links and the pictures of the built site lead to files and headings that the site has."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class _Page(HTMLParser):
    """`addresses`: of links, pictures, scripts and styles. `anchors`: what a link to the page may name."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.addresses: set[str] = set()
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value and name in ("href", "src"):
                self.addresses.add(value)
            elif value and (name == "id" or (name == "name" and tag == "a")):
                self.anchors.add(value)


def problems(site: Path) -> Iterator[str]:
    """One line for each address that leads nowhere. Addresses of other sites are not followed."""

    @cache
    def page(path: Path) -> _Page:
        return _Page(path.read_text(encoding="utf-8"))

    for path in sorted(site.rglob("*.html")):
        for address in sorted(page(path).addresses):
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            file = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            where = f"{path.relative_to(site)}: {address!r}"
            if not file.is_file():
                yield f"{where} leads to no file of the site"
            elif _names_heading(file, parts.fragment) and unquote(parts.fragment) not in page(file).anchors:
                yield f"{where} names nothing on that page"


def _names_heading(file: Path, fragment: str) -> bool:
    """Whether the end of an address has to be an anchor. The report's addresses, such as #/changes, are its own."""
    return file.suffix == ".html" and bool(fragment) and not fragment.startswith("/")
