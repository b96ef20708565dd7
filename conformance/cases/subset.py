"""A subset: a file that names the cases to run, such as those that a vendor supports.

    # our device has no float64
    flip/hflip-224-u8-contiguous                                  a case id
    flip/hflip-224-u8-contiguous-cuda_sm90                        a case on one target
    ops/test_flip.py::test_hflip[224-u8-contiguous-cuda_sm90]     a node id of pytest; its folder does not matter
    ops/test_flip.py::test_vflip                                  a function: all its cases
    smooth_l1_loss/*                                              a pattern: * and ? match anything

What follows # is a comment.
"""

from __future__ import annotations

import difflib
import fnmatch
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from conformance.cases.case import Case
from conformance.errors import ConformanceError

_NODE = re.compile(r"(?P<file>[^:\[]*\.py)::test_(?P<function>\w+)(?:\[(?P<labels>.*)\])?")
_COMMENT = re.compile(r"(^|\s)#.*")
_SHOWN = 3  # similar ids in a message


class SubsetError(ConformanceError, ValueError):
    """A file that cannot be read, or a line that names no case. The message names the line and the nearest names."""


@dataclass(frozen=True)
class _Line:
    """`where`: file and number. `text`: as it is written. `pattern`: what it matches, an id with * and ?."""

    where: str
    text: str
    pattern: str

    @property
    def operator(self) -> str:
        return self.pattern.partition("/")[0]

    def names(self, name: str) -> bool:
        return fnmatch.fnmatchcase(name, self.pattern) if _has_wildcard(self.pattern) else name == self.pattern


@dataclass(frozen=True)
class Subset:
    """The lines of a file."""

    lines: Sequence[_Line]

    def has(self, case: Case, target: str = "") -> bool:
        """Whether a line names the case, or the case on the target."""
        names = [case.id, f"{case.operator}/{case.name}", *([f"{case.id}-{target}"] if target else [])]
        return any(line.names(name) for line in self.lines for name in names)

    def validate(self, cases: Iterable[Case], targets: Collection[str], others: Collection[str] = ()) -> None:
        """Raises SubsetError for the first line that names none of the cases.

        `others`: operators that have cases which are not in `cases`: lines that name only those are not judged.
        """
        cases = list(cases)
        collected = {case.operator for case in cases}
        known = {name for case in cases for name in (case.id, f"{case.operator}/{case.name}")}
        for line in self.lines:
            elsewhere = [each for each in others if each not in collected and fnmatch.fnmatchcase(each, line.operator)]
            if elsewhere or any(map(line.names, known)) or self._names_item(line, known, targets):
                continue
            raise SubsetError(f"{line.where}: {line.text!r} names no case{_nearest(line.pattern, known)}")

    @staticmethod
    def _names_item(line: _Line, known: Collection[str], targets: Collection[str]) -> bool:
        if _has_wildcard(line.pattern):
            return any(line.names(f"{name}-{target}") for name in known for target in targets)
        return any(line.pattern.removesuffix(f"-{target}") in known for target in targets if target in line.pattern)


def read_subset(path: Path) -> Subset:
    """Reads a file. Raises SubsetError if it cannot be read, or names nothing."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise SubsetError(f"--subset: the file {path} cannot be read: {reason}") from error
    lines = []
    for number, line in enumerate(text.splitlines(), 1):
        if words := _COMMENT.sub("", line).strip():
            lines.append(_Line(f"{path}:{number}", words, _pattern(words)))
    if not lines:
        raise SubsetError(f"--subset: {path} names no case: write a case id or a pattern a line")
    return Subset(lines)


def _pattern(words: str) -> str:
    """What a line matches: a node id becomes the id of the case, with or without a target."""
    node = _NODE.fullmatch(words)
    if node is None:
        return words
    operator = PurePath(node["file"]).stem.removeprefix("test_")
    return "-".join(filter(None, (f"{operator}/{node['function']}", node["labels"])))


def _has_wildcard(pattern: str) -> bool:
    return "*" in pattern or "?" in pattern


def _nearest(pattern: str, known: Collection[str]) -> str:
    """The end of a message: the ids that contain the words of a pattern, or are similar to it."""
    words = pattern.strip("*?")
    near = [name for name in sorted(known) if words and words in name]
    near += [name for name in difflib.get_close_matches(words, sorted(known), _SHOWN, 0.5) if name not in near]
    if not near:
        return "; `python -m conformance list` lists all"
    more = f" and {len(near) - _SHOWN} more" if len(near) > _SHOWN else ""
    return f"; nearest: {', '.join(near[:_SHOWN])}{more}"
