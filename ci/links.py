#!/usr/bin/env python3
"""Checks that the Markdown pages link to files and headings that exist, and that named files of the repository exist.

    python ci/links.py          # exit status 1 and a line for each wrong link, and for each problem that words.py finds

Looks at all files that git tracks or would add. Links to other sites are not followed. In files other than Markdown,
only names such as `docs/numerics.md` are checked.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import words

ROOT = Path(__file__).resolve().parent.parent

#: Text files whose comments and messages name other files.
SUFFIXES = (".md", ".py", ".toml", ".ini", ".cpp", ".yml")
#: Written by the suite: names of files in them are data.
GENERATED = ("conformance/expected_code/", "conformance/expected_binary/", "docs/changes-")
#: Names files that are gone.
HISTORY = ("CHANGELOG.md",)

_LINK = re.compile(r"\[[^\]]*\]\(<?([^()\s>]+)>?\)")
_FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)
_NAMED = re.compile(r"(?<![\w./~-])((?:benchmarks|ci|docs|selftests)/(?:[\w-]+/)*[\w.-]+\.(?:md|py|toml|txt))\b")
_NAMED_IN_PAGES = re.compile(
    r"(?<![\w./~-])((?:benchmarks|ci|conformance|docs|selftests)/[\w./-]*\w\.?(?:md|py|toml|cpp)\b)"
)


def files() -> list[Path]:
    """The files that git tracks, and those that it would add."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    names = (name for name in listed.split("\0") if name.endswith(SUFFIXES) and not name.startswith(GENERATED))
    return sorted(path for path in (ROOT / name for name in names) if path.exists())


@cache
def anchors(page: Path) -> frozenset[str]:
    """The anchors that GitHub gives the headings of a page."""
    found: dict[str, int] = {}
    out = set()
    for heading in _HEADING.findall(_FENCE.sub("", page.read_text(encoding="utf-8"))):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        anchor = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        number = found[anchor] = found.get(anchor, -1) + 1
        out.add(f"{anchor}-{number}" if number else anchor)
    return frozenset(out)


def problems(path: Path) -> Iterator[str]:
    """One line for each link or file name that leads nowhere."""
    text = path.read_text(encoding="utf-8")
    is_page = path.suffix == ".md"
    if is_page:
        for target in _LINK.findall(_FENCE.sub("", text)):
            if problem := _problem(path, target):
                yield f"{path.relative_to(ROOT)}: the link {target!r} {problem}"
    if path.name in HISTORY:
        return
    for name in sorted(set((_NAMED_IN_PAGES if is_page else _NAMED).findall(text))):
        if not (ROOT / name).exists():
            yield f"{path.relative_to(ROOT)}: names {name}, and there is no such file"


def _problem(page: Path, target: str) -> str:
    if re.match(r"[a-z]+:", target):
        return ""
    name, _, anchor = target.partition("#")
    file = (page.parent / unquote(name)).resolve() if name else page
    if not file.is_relative_to(ROOT):
        return "leads out of the repository"
    if not file.exists():
        return "leads to no file"
    if anchor and file.suffix == ".md" and anchor not in anchors(file):
        return f"names no heading of {file.name}"
    return ""


def main() -> int:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    paths = files()
    wrong = [*(line for path in paths for line in problems(path)), *words.problems()]
    print("\n".join(wrong or [f"{len(paths)} files: all links and file names resolve"]))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
