"""The functions that a commit changes and a case executes, with their changed lines."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from conformance.bisection.history import WHOLE, History
from conformance.sources.units import SKELETON, Units, units_of

_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,(\d+))? @@")


#: Path below torch/ → numbers of lines.
Lines = Mapping[str, Sequence[int]]


@dataclass(frozen=True)
class ChangedFunction:
    """`path`: below torch/. `name`: as in units.py.

    `lines`: of the diff, with their numbers: `-` for a removed one, `+` for an added one, `*` for an added one that is
    executed.
    """

    path: str
    name: str
    lines: tuple[str, ...]


def ranges(history: History) -> dict[str, list[list[int]]]:
    """Path → the first and last lines of each place in which the bad end differs from the good one, in its own text."""
    result: dict[str, list[list[int]]] = {}
    path = ""
    for line in history.diff(history.good, history.bad, ""):
        if line.startswith("+++ "):
            path = line.removeprefix("+++ ").strip('"').removeprefix("b/torch/")
        elif (hunk := _HUNK.match(line)) and path.endswith(".py"):
            start, count = int(hunk[2]), int(hunk[3] or 1)
            result.setdefault(path, []).append([start, start + max(count, 1)])
    return result


def executed_functions(
    history: History,
    commit: str,
    ends: Sequence[tuple[str, Mapping[str, Sequence[int]]]],
    lines: Mapping[str, Sequence[int]],
) -> list[ChangedFunction]:
    """The changed functions that are executed.

    `ends`: commits that behave as the one before and as the one after, and path → first lines of the functions that
    are executed there. `lines`: path → executed lines of the bad end; a line of the commit counts as executed if the
    same function has it there. Other parts of a module are named if it is imported.
    """
    result = []
    for path in history.changed_files(commit):
        old, new = history.text(f"{commit}^1", path), history.text(commit, path)
        units = history.changes(commit, path)
        parsed = None if WHOLE in units else (units_of(old), units_of(new))
        used: set[str] = set()
        for at, functions in ends:
            used |= history.units_at(at, path, functions[path]) if path in functions else set()
        diff, executed = list(_diff(history, commit, path)), _executed_lines(history, path, lines.get(path, ()))
        for name in sorted(units):
            found = tuple(_lines(name, diff, parsed, executed.get(name, frozenset())))
            if found and (name in used or name in (WHOLE, SKELETON)):
                result.append(ChangedFunction(path, name, found))
    return result


def _executed_lines(history: History, path: str, numbers: Sequence[int]) -> dict[str, set[str]]:
    """Function → the texts of its executed lines at the bad end."""
    if not numbers:
        return {}
    text = history.text(history.bad, path)
    units, lines = units_of(text), text.splitlines()
    result: dict[str, set[str]] = {}
    for number in numbers:
        result.setdefault(units.at(number), set()).add(lines[number - 1].strip())
    return result


def _diff(history: History, commit: str, path: str) -> Iterator[tuple[str, int, str]]:
    """Yields `-` or `+`, the number of the line on that side, and the line."""
    old = new = 0
    for line in history.diff(f"{commit}^1", commit, path):
        if hunk := _HUNK.match(line):
            old, new = int(hunk[1]), int(hunk[2])
        elif line.startswith("-") and old:
            yield "-", old, line[1:]
            old += 1
        elif line.startswith("+") and old:
            yield "+", new, line[1:]
            new += 1


def _lines(
    name: str, diff: Sequence[tuple[str, int, str]], parsed: tuple[Units, Units] | None, executed: Collection[str]
) -> Iterator[str]:
    """The lines of one function's diff."""
    for sign, number, line in diff:
        if parsed is None or parsed[sign == "+"].at(number) == name:
            yield f"{'*' if sign == '+' and line.strip() in executed else sign} {number:5} {line}"
