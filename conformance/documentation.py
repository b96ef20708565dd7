"""The pages of documentation, and how a message refers to one.

In a checkout, and in an editable install, the pages are README.md and others beside it, and docs/. In a wheel they are
all in the folder conformance/docs: setup.py copies them. Pages that are generated from the cases come with these.
"""

from __future__ import annotations

import difflib
import re
from pathlib import Path

from conformance.errors import ConformanceError

_PACKAGE = Path(__file__).parent
#: Pages that a checkout keeps beside docs/. setup.py has the same list.
BESIDE = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")
_OF_THE_CASES = re.compile(r"known-bugs|changes-.*|flip|kinds|missed-optimisations")
#: Comments are for the scripts of the repository, and not for readers.
_COMMENT = re.compile(r"^<!--.*?-->\n\n?", re.MULTILINE | re.DOTALL)
_FENCE = re.compile(r"^\s*(```|~~~)")
_HEADING = re.compile(r"^(#{1,6}) +(.+?) *#*$")


class PageError(ConformanceError, LookupError):
    """A page or a section that does not exist. The message lists those that do."""


def reference(page: str, section: str = "") -> str:
    """How a message names a page, or a section of it: the command that prints it, also in an installed package.

    `section`: the anchor of a heading, such as "audit-of-opt-outs".
    """
    return f"`python -m conformance docs {page}{'#' if section else ''}{section}`"


def pages() -> dict[str, Path]:
    """Name → file of each page: "numerics", "upstream/gradient-of-cond", "readme". Sorted by name.

    Raises PageError if the installation has no pages.
    """
    folder = _PACKAGE / "docs"
    found = {}
    if not folder.is_dir():
        folder = _PACKAGE.parent / "docs"
        found = {name.removesuffix(".md").lower(): _PACKAGE.parent / name for name in BESIDE}
    files = {path.relative_to(folder).with_suffix("").as_posix(): path for path in folder.rglob("*.md")}
    if not files:
        raise PageError(f"this installation has no pages: {folder} is missing; install conformance again")
    found |= {name.lower() if f"{name}.md" in BESIDE else name: path for name, path in files.items()}
    return {name: path for name, path in sorted(found.items()) if path.is_file()}


def title(page: Path) -> str:
    """The first heading of a page."""
    lines = page.read_text(encoding="utf-8").splitlines()
    return next((line.removeprefix("# ") for line in lines if line.startswith("# ")), page.stem)


def page_text(name: str) -> str:
    """The Markdown of a page, or of a section of it: "numerics", "numerics#seeds", also "docs/numerics.md#seeds".

    Comments are left out.

    Raises PageError for a page or a section that does not exist.
    """
    wanted, _, section = name.partition("#")
    wanted = wanted.removeprefix("docs/").removesuffix(".md")
    known = pages()
    file = known.get(wanted) or known.get(wanted.lower())
    if file is None:
        near = difflib.get_close_matches(wanted, known, 1)
        hint = f"; nearest: {near[0]}" if near else ""
        if _OF_THE_CASES.fullmatch(wanted):
            hint = "; it comes with the cases: pip install 'conformance[suite]'"
        raise PageError(f"there is no page {wanted!r}{hint}; the pages are {', '.join(known)}")
    text = _COMMENT.sub("", file.read_text(encoding="utf-8"))
    return _section(text, wanted, section) if section else text


def sections(text: str) -> dict[str, tuple[int, int]]:
    """The anchor that GitHub gives each heading → the number of its line, counted from 0, and its level."""
    found: dict[str, tuple[int, int]] = {}
    fenced = False
    for number, line in enumerate(text.splitlines()):
        fenced ^= bool(_FENCE.match(line))
        heading = None if fenced else _HEADING.match(line)
        if heading:
            plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[2]).lower()
            anchor = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
            count = sum(re.fullmatch(rf"{re.escape(anchor)}(-\d+)?", other) is not None for other in found)
            found[f"{anchor}-{count}" if count else anchor] = (number, len(heading[1]))
    return found


def _section(text: str, page: str, section: str) -> str:
    """A section with its subsections."""
    known = sections(text)
    if section not in known:
        near = difflib.get_close_matches(section, known, 1)
        hint = f"; nearest: {near[0]}" if near else ""
        raise PageError(f"the page {page} has no section {section!r}{hint}; its sections are {', '.join(known)}")
    first, level = known[section]
    last = min((line for line, other in known.values() if line > first and other <= level), default=None)
    return "\n".join(text.splitlines()[first:last]).rstrip() + "\n"
