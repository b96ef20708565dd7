"""Two texts beside each other, as wide as the terminal."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence

from conformance.terminal import paint

#: Between the columns, as diff --side-by-side has it: the same, different, only left, only right.
SAME, DIFFERENT, LEFT, RIGHT = " ", "|", "<", ">"


def side_by_side(left: Sequence[str], right: Sequence[str], width: int) -> Iterator[str]:
    """Lines that belong together in one row; long ones go on in the next."""
    column = max(20, (width - 3) // 2)
    for mark, old, new in rows(left, right):
        yield from _row(mark, old, new, column)


def rows(left: Sequence[str], right: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """(mark, line of the left, line of the right)."""
    matcher = difflib.SequenceMatcher(None, left, right, autojunk=False)
    for tag, a0, a1, b0, b1 in matcher.get_opcodes():
        if tag == "equal":
            yield from ((SAME, line, line) for line in left[a0:a1])
            continue
        both = min(a1 - a0, b1 - b0)
        yield from ((DIFFERENT, left[a0 + i], right[b0 + i]) for i in range(both))
        yield from ((LEFT, line, "") for line in left[a0 + both : a1])
        yield from ((RIGHT, "", line) for line in right[b0 + both : b1])


def facts_side_by_side(
    left: Mapping[str, str], right: Mapping[str, str], titles: Sequence[str], width: int
) -> Iterator[str]:
    """A row for each fact under the two titles; those that differ are marked and coloured."""
    names = [*left, *(name for name in right if name not in left)]
    first = max(len(name) for name in names) + 2
    column = max(20, (width - first - 3) // 2)
    for line in _row(SAME, *titles, column):
        yield paint(f"{'':<{first}}{line}", "bold")
    for name in names:
        old, new = left.get(name, "").splitlines(), right.get(name, "").splitlines()
        given = [(mark, a, b) for mark, a, b in _paired(old, new)]
        for number, line in enumerate(row for each in given for row in _row(*each, column)):
            yield f"{paint(f'{name if number == 0 else str():<{first}}', 'cyan')}{line}".rstrip()


def _paired(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Lines of a fact beside each other; the whole fact is the same or not."""
    mark = SAME if old == new else DIFFERENT
    for number in range(max(len(old), len(new))):
        yield mark, *(lines[number].strip() if number < len(lines) else "" for lines in (old, new))


def _row(mark: str, old: str, new: str, column: int) -> Iterator[str]:
    lines = [list(_wrapped(text, column)) for text in (old, new)]
    for number in range(max(map(len, lines))):
        a, b = (each[number] if number < len(each) else "" for each in lines)
        padded = f"{a:<{column}}"
        if mark == SAME:
            yield f"{padded}   {b}".rstrip()
        else:
            yield f"{paint(padded, 'red')} {paint(mark, 'bold')} {paint(b, 'green')}".rstrip()


def _wrapped(text: str, column: int) -> Iterator[str]:
    """At a blank where there is one in the second half; what follows is indented as far as the line, and by two."""
    indent = " " * min(len(text) - len(text.lstrip()) + 2, column // 2)
    while len(text) > column:
        cut = text.rfind(" ", column // 2, column + 1)
        cut = cut if cut > len(indent) else column
        yield text[:cut].rstrip()
        text = indent + text[cut:].lstrip()
    yield text
