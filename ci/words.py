"""Checks how long the pages are, and how docstrings begin. ci/links.py calls it.

The pages are README.md, CONTRIBUTING.md and docs/*.md, without those that a command writes, and without the parts of a
page between `<!-- NAME: written by SCRIPT -->` and `<!-- end of NAME -->`.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

# lint installs no package
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent / "documentation"))
import stored_pages

ROOT = Path(__file__).resolve().parent.parent

#: Words of one paragraph, or of one entry of a list.
LONGEST_PARAGRAPH = 90
#: Words of all pages that people write.
MOST_WORDS = 40_000
#: A docstring that begins so leaves out its noun: "Those of a file." The noun may follow "this" and "these".
PRONOUNS = re.compile(r"(?:Those|They|Them|It|Its|Their|That)\b|(?:This|These) (?:is|are|was|were|has|have|of)\b")

_WRITTEN = re.compile(r"<!-- ([\w ]+): written by .*?<!-- end of \1 -->", re.DOTALL)
_COMMENT = re.compile(r"^<!--.*?-->\n", re.MULTILINE | re.DOTALL)
_FENCE = re.compile(r"^ *(```|~~~).*?^ *\1 *$", re.MULTILINE | re.DOTALL)
_ADDRESS = re.compile(r"\]\([^()\s]*\)")
#: A line that begins a new paragraph, or is none: an entry of a list, a heading, a row of a table, a comment.
_NEW = re.compile(r" *(?:[-*] |\d+\. |#|\||<!--)")


def pages() -> list[Path]:
    """The pages that people write."""
    generated = {*stored_pages.COMMANDS, *stored_pages.FROM_RUNS}
    found = [path for path in sorted((ROOT / "docs").glob("*.md")) if path.stem not in generated]
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *found]


def written(page: Path) -> str:
    """The page's text without comments and without the parts that a script writes."""
    return _COMMENT.sub("", _WRITTEN.sub("", page.read_text(encoding="utf-8")))


def paragraphs(text: str) -> Iterator[list[str]]:
    """The words of each paragraph and of each entry of a list. Code, tables and headings are left out."""
    words: list[str] = []
    for line in [*_ADDRESS.sub("]", _FENCE.sub("", text)).splitlines(), ""]:
        if not line.strip() or _NEW.match(line):
            if words:
                yield words
            words = []
        if not re.match(r" *(?:#|\||<!--)", line):
            words += line.split()


def problems() -> Iterator[str]:
    """One line for each paragraph that is too long and each docstring without its noun; one if all is too long."""
    total = 0
    for page in pages():
        text = written(page)
        total += len(text.split())
        for words in paragraphs(text):
            if len(words) > LONGEST_PARAGRAPH:
                begin = " ".join(words[:8])
                yield f"{page.relative_to(ROOT)}: {len(words)} words, more than {LONGEST_PARAGRAPH}: {begin} …"
    if total > MOST_WORDS:
        yield f"the pages that people write have {total:,} words, more than {MOST_WORDS:,}"
    for path in sorted((ROOT / "conformance").rglob("*.py")):
        yield from _docstrings(path)


def _docstrings(path: Path) -> Iterator[str]:
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        text = ast.get_docstring(node) if isinstance(node, kinds) else None
        if text and PRONOUNS.match(text):
            place = f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}"
            yield f"{place}: begin the docstring with its noun: {text.splitlines()[0]}"
