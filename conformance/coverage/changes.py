"""What an edit of torch changes: a place as typed, `torch/_inductor/lowering.py:1234`, or the diff of `git diff`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from conformance.coverage.coverage_map import CoverageError

_PLACE = re.compile(r"(?:.*/)?torch/(?P<path>[^:]+\.py):(?P<where>\d+(?:-\d+)?|[A-Za-z_][\w.]*)")
_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@(.*)")
_INDEX = re.compile(r"index ([0-9a-f]+)\.\.([0-9a-f]+)")
_FUNCTION = re.compile(r"\s*(?:async\s+)?(?:def|class)\s+(\w+)")


@dataclass(frozen=True)
class Block:
    """Lines that follow each other, in the old text. `first`: the number of the first removed one; without one, of the
    line that follows the added ones. `before`: the unchanged lines of the hunk that come before. `heading`: the name
    that git found for the function around the hunk, or "".
    """

    first: int
    removed: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    heading: str = ""


@dataclass(frozen=True)
class Change:
    """One file's changes. `path`: below torch/; or the whole path where `is_torch` is false.

    `blob`: the beginning of git's id of the old text, or "". `blocks`: of a diff. `places`: lines that were typed.
    `names`: functions that were typed.
    """

    path: str
    is_torch: bool = True
    blob: str = ""
    blocks: tuple[Block, ...] = ()
    places: tuple[int, ...] = ()
    names: tuple[str, ...] = ()


def is_places(text: str) -> bool:
    """Whether each word between commas is FILE:LINE, FILE:FIRST-LAST or FILE:FUNCTION."""
    return all(_PLACE.fullmatch(word) for word in _words(text)) and bool(_words(text))


def parse_places(text: str) -> list[Change]:
    """The changes of FILE:LINE[,…]. Raises CoverageError for a word that is none."""
    changes = []
    for word in _words(text):
        match = _PLACE.fullmatch(word)
        if match is None:
            raise CoverageError(
                f"{word!r} names no place: write torch/_inductor/lowering.py:1234, …:1234-1240 or …:FUNCTION"
            )
        where = match["where"]
        if where[0].isdigit():
            first, _, last = where.partition("-")
            numbers = tuple(range(int(first), int(last or first) + 1))
            changes.append(Change(match["path"], places=numbers))
        else:
            changes.append(Change(match["path"], names=(where,)))
    return changes


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def parse_diff(text: str, name: str) -> list[Change]:
    """The changes of a unified diff, such as git's. `name`: of the diff, for messages.

    Raises CoverageError for a text without a diff; an empty one changes nothing.
    """
    changes = [_change(part) for part in _files(text.splitlines())]
    if not changes and text.strip():
        raise CoverageError(f"{name} is no diff: give the output of git diff in a checkout of PyTorch")
    return changes


def _files(lines: Sequence[str]) -> Iterator[list[str]]:
    """The lines of each file: from `diff --git`, or from `---` where another program wrote the diff."""
    has_git = any(line.startswith("diff --git ") for line in lines)
    part: list[str] = []
    left = 0  # lines of the hunk that are still to come: a removed line may look like a header
    for line in lines:
        if left <= 0 and line.startswith("diff --git " if has_git else "--- "):
            if part:
                yield part
            part = [line]
        elif part:
            part.append(line)
        if left <= 0 and (hunk := _HUNK.match(line)):
            left = int(hunk[2] or 1) + int(hunk[4] or 1)
        elif left > 0:
            left -= {" ": 2, "": 2, "-": 1, "+": 1}.get(line[:1], 0)
    if part:
        yield part


def _change(lines: Sequence[str]) -> Change:
    blob, old, new, place = "", "", "", 0
    blocks: list[Block] = []
    while place < len(lines):
        line = lines[place]
        place += 1
        if match := _INDEX.match(line):
            blob = match[1]
        elif line.startswith("rename from "):
            old = line.removeprefix("rename from ")
        elif line.startswith("--- "):
            old = _path(line)
        elif line.startswith("+++ "):
            new = _path(line)
        elif hunk := _HUNK.match(line):
            size = place
            left = int(hunk[2] or 1) + int(hunk[4] or 1)
            while size < len(lines) and left > 0:
                left -= {" ": 2, "": 2, "-": 1, "+": 1}.get(lines[size][:1], 0)
                size += 1
            blocks += _blocks(int(hunk[1]) + (hunk[2] == "0"), lines[place:size], hunk[5])
            place = size
    path = old or new or _path_of_header(lines[0])
    is_torch = path.startswith("torch/")
    return Change(path.removeprefix("torch/") if is_torch else path, is_torch, blob, tuple(blocks))


def _path(line: str) -> str:
    path = line[4:].split("\t", maxsplit=1)[0].strip().strip('"')
    return "" if path == "/dev/null" else re.sub(r"^[a-z]/", "", path)


def _path_of_header(line: str) -> str:
    """Of `diff --git a/PATH b/PATH`: a change of the mode, or of a binary file, has no other line with the path."""
    return line.removeprefix("diff --git ").split(" b/")[0].removeprefix("a/")


def _blocks(number: int, lines: Sequence[str], heading: str) -> Iterator[Block]:
    """The blocks of a hunk. `number`: of its first old line."""
    match = _FUNCTION.match(heading)
    name, before = match[1] if match else "", list[str]()
    removed: list[str] = []
    added: list[str] = []
    first = number
    for line in [*lines, " "]:
        if line.startswith("\\"):  # no newline at the end of the file
            continue
        if line[:1] in ("-", "+"):
            (removed if line[0] == "-" else added).append(line[1:])
            number += line[0] == "-"
            continue
        if removed or added:
            yield Block(first, tuple(removed), tuple(added), tuple(before), name)
            before += removed
            removed, added = [], []
        before.append(line[1:])
        number += 1
        first = number
