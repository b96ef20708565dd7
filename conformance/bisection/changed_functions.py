"""The functions that a commit changes and a case executes, with their changed lines."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from conformance.bisection.history import WHOLE, History
from conformance.bisection.units import SKELETON, Units, units_of

_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")


@dataclass(frozen=True)
class ChangedFunction:
    """`path`: below torch/. `name`: as in units.py.

    `lines`: of the diff, with their numbers: `-` for a removed one, `+` for an added one, `*` for an added one that is
    executed.
    """

    path: str
    name: str
    lines: tuple[str, ...]


def ranges(history: History, commit: str) -> dict[str, list[list[int]]]:
    """Path → the first and last lines of the functions that a commit changes, in the text after it."""
    result = {}
    for path in history.changed_files(commit):
        units = history.changes(commit, path)
        if WHOLE not in units and (changed := units - {SKELETON}):
            functions = units_of(history.text(commit, path)).functions
            result[path] = [[functions[name].first, functions[name].last] for name in sorted(changed)]
    return result


def executed_functions(
    history: History,
    commit: str,
    executed: Mapping[str, Sequence[int]],
    before: tuple[str, Mapping[str, Sequence[int]]],
) -> list[ChangedFunction]:
    """The changed functions that are executed.

    `executed`: path → executed lines, after the commit. `before`: an earlier commit that behaves as the one before, and
    path → first lines of the functions that are executed there. Other parts of a module are named if it is imported.
    """
    at, was = before
    result = []
    for path in history.changed_files(commit):
        old, new = history.text(f"{commit}^1", path), history.text(commit, path)
        units = history.changes(commit, path)
        parsed = None if WHOLE in units else (units_of(old), units_of(new))
        used = history.units_at(at, path, was[path]) if path in was else frozenset()
        diff = list(_diff(history, commit, path))
        for name in sorted(units):
            lines = tuple(_lines(name, diff, parsed, executed.get(path, ())))
            is_executed = name in (WHOLE, SKELETON) or name in used or any(line.startswith("*") for line in lines)
            if lines and is_executed:
                result.append(ChangedFunction(path, name, lines))
    return result


def _diff(history: History, commit: str, path: str) -> Iterator[tuple[str, int, str]]:
    """Yields `-` or `+`, the number of the line on that side, and the line."""
    old = new = 0
    for line in history.diff(commit, path):
        if hunk := _HUNK.match(line):
            old, new = int(hunk[1]), int(hunk[2])
        elif line.startswith("-") and old:
            yield "-", old, line[1:]
            old += 1
        elif line.startswith("+") and old:
            yield "+", new, line[1:]
            new += 1


def _lines(
    name: str, diff: Sequence[tuple[str, int, str]], parsed: tuple[Units, Units] | None, executed: Collection[int]
) -> Iterator[str]:
    """The lines of one function's diff."""
    for sign, number, line in diff:
        if parsed is None or parsed[sign == "+"].at(number) == name:
            yield f"{'*' if sign == '+' and number in executed else sign} {number:5} {line}"
