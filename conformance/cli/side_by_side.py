"""Two texts beside each other, as wide as the terminal."""

from __future__ import annotations

import difflib
import itertools
import textwrap
from collections.abc import Iterator, Mapping, Sequence

from rich.table import Table
from rich.text import Text

from conformance.terminal import table_text, width

#: The marks of `diff --side-by-side`: the same, different, only on the left, only on the right.
SAME, DIFFERENT, LEFT, RIGHT = " ", "|", "<", ">"

#: Of each column of text.
_LEAST_WIDTH = 20


def side_by_side(left: Sequence[str], right: Sequence[str]) -> str:
    """Returns a row for each pair of lines that belong together. Long lines are folded."""
    column = max(_LEAST_WIDTH, (width() - 3) // 2)
    table = _table([column, 3, column])
    for mark, old, new in aligned_lines(left, right):
        table.add_row(*_cells(mark, old, new, column))
    return table_text(table)


def aligned_lines(left: Sequence[str], right: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Yields (mark, line of the left, line of the right)."""
    matcher = difflib.SequenceMatcher(None, left, right, autojunk=False)
    for tag, a0, a1, b0, b1 in matcher.get_opcodes():
        if tag == "equal":
            yield from ((SAME, line, line) for line in left[a0:a1])
            continue
        both = min(a1 - a0, b1 - b0)
        yield from ((DIFFERENT, left[a0 + i], right[b0 + i]) for i in range(both))
        yield from ((LEFT, line, "") for line in left[a0 + both : a1])
        yield from ((RIGHT, "", line) for line in right[b0 + both : b1])


def facts_side_by_side(left: Mapping[str, str], right: Mapping[str, str], titles: tuple[str, str]) -> str:
    """Returns the rows of each fact, under the two titles. Facts that differ are marked and coloured."""
    names = [*left, *(name for name in right if name not in left)]
    first = max(len(name) for name in names) + 2
    column = max(_LEAST_WIDTH, (width() - first - 3) // 2)
    table = _table([first, column, 3, column])
    table.add_row("", *_cells(SAME, *titles, column), style="bold")
    for name in names:
        old, new = (facts.get(name, "").splitlines() for facts in (left, right))
        mark = SAME if old == new else DIFFERENT
        for number, (one, other) in enumerate(itertools.zip_longest(old, new, fillvalue="")):
            title = Text(name if number == 0 else "", "cyan")
            table.add_row(title, *_cells(mark, one.strip(), other.strip(), column))
    return table_text(table)


def _table(widths: Sequence[int]) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False, padding=0)
    for columns in widths:
        table.add_column(width=columns, overflow="fold")
    return table


def _cells(mark: str, old: str, new: str, column: int) -> tuple[Text, Text, Text]:
    """Returns both lines, folded, and the mark beside each line of them."""
    left, right = _folded(old, column), _folded(new, column)
    marks = "\n".join([f" {mark} "] * (1 + max(left.count("\n"), right.count("\n"))))
    styles = ("", "", "") if mark == SAME else ("red", "bold", "green")
    return Text(left, styles[0]), Text(marks, styles[1]), Text(right, styles[2])


def _folded(line: str, column: int) -> str:
    """Folds a line; the lines after the first are indented by two more."""
    indent = " " * min(len(line) - len(line.lstrip()) + 2, column // 2)
    return "\n".join(textwrap.wrap(line, column, subsequent_indent=indent, break_on_hyphens=False))
