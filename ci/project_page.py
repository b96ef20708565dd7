"""What a package index shows of a distribution: its URLs, and a page whose links work there."""

from __future__ import annotations

import re
from pathlib import Path

#: A link or an image of Markdown whose target is a file of the repository, or a heading of the page.
_RELATIVE_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?![a-z]+:)([^()\s]+)\)")
_ADDRESS = re.compile(r'^repository = "([^"]*)"', re.MULTILINE)


def version(root: Path) -> str:
    """The version of all distributions."""
    text = (root / "conformance" / "__init__.py").read_text(encoding="utf-8")
    return re.findall(r'^__version__ = "([^"]+)"', text, re.MULTILINE)[0]


def repository(root: Path) -> str:
    """The public address of the repository, without a slash at its end; "" if pyproject.toml names none."""
    # A pattern and not tomllib: Python 3.10 has none, and the build needs setuptools alone.
    found = _ADDRESS.search((root / "pyproject.toml").read_text(encoding="utf-8"))
    return found[1].rstrip("/") if found else ""


def urls(address: str) -> dict[str, str]:
    """Label → URL. Without an address there are none."""
    if not address:
        return {}
    return {
        "Homepage": address,
        "Source": address,
        "Issues": f"{address}/issues",
        "Changelog": f"{address}/blob/main/CHANGELOG.md",
        "Documentation": f"{address}/tree/main/docs",
    }


def description(page: Path, address: str) -> str:
    """The text of a page with absolute links; without an address, with the links' text alone."""

    def absolute(link: re.Match[str]) -> str:
        image, text, target = link.groups()
        if not address:
            return text
        if target.startswith("#"):
            return link[0]  # a package index gives headings the same anchors
        return f"{image}[{text}]({address}/{'raw' if image else 'blob'}/main/{target})"

    return _RELATIVE_LINK.sub(absolute, page.read_text(encoding="utf-8"))
