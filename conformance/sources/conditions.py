"""The branches of functions: the two ways that each `if`, `elif` and `while` can take.

A branch is a number: twice the line of its statement, and 1 more for the way that is taken when the condition holds.
Not counted: a condition that is a constant, and a body that begins on the line where its condition ends.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass

#: The code of these has no statements. Their lines may be those of a condition that they are a part of.
EXPRESSIONS = ("<genexpr>", "<listcomp>", "<setcomp>", "<dictcomp>", "<lambda>")


@dataclass(frozen=True)
class Condition:
    """`line`: of its statement. `lines`: of the condition itself. `body`: of what runs when it holds."""

    line: int
    lines: range
    body: range

    def branch_to(self, line: int) -> int | None:
        """The branch that was taken if `line` runs after a line of the condition; None for another line of it.

        `line`: 0 for the end of the function.
        """
        if line in self.lines:
            return None
        return branch(self.line, holds=line in self.body)


def branch(line: int, *, holds: bool) -> int:
    return 2 * line + holds


def conditions(text: str) -> dict[int, Condition]:
    """Line → the condition that it is a part of. Raises SyntaxError."""
    found = {}
    for node in ast.walk(ast.parse(text)):  # outer nodes come first
        if isinstance(node, (ast.If, ast.While)) and not isinstance(node.test, ast.Constant):
            first, last = node.body[0], node.body[-1]
            begin = min([first.lineno, *(each.lineno for each in getattr(first, "decorator_list", ()))])
            own = range(node.lineno, (node.test.end_lineno or node.lineno) + 1)
            if begin not in own:
                made = Condition(node.lineno, own, range(begin, (last.end_lineno or last.lineno) + 1))
                found.update(dict.fromkeys(own, made))
    return found


def branches_of(found: Mapping[int, Condition], lines: set[int]) -> set[int]:
    """The branches of the conditions with a line in `lines`."""
    statements = {condition.line for line, condition in found.items() if line in lines}
    return {branch(line, holds=holds) for line in statements for holds in (False, True)}
