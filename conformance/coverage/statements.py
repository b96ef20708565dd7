"""What runs when a line of a Python text changes: a statement, a function, or the import of the module."""

from __future__ import annotations

import ast
import functools
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Text:
    """A parsed file. `inside`: line → the lines of the innermost statement whose own lines hold it.

    The own lines of an `if` end before its body. The head of a function stands for the whole function.
    `functions`: the lines of functions, without their decorators.
    """

    inside: dict[int, range]
    functions: frozenset[int]
    lines: tuple[str, ...]

    def statement(self, line: int) -> range | None:
        """None for a comment, a blank line, a docstring, and what is in no function."""
        return self.inside.get(line) if line in self.functions else None


@functools.lru_cache(maxsize=64)
def parsed(text: str) -> Text:
    """Raises SyntaxError."""
    inside: dict[int, range] = {}
    functions: set[int] = set()
    for node in ast.walk(ast.parse(text)):  # outer nodes come first
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            functions.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        if isinstance(node, (ast.stmt, ast.ExceptHandler, ast.match_case)) and not _is_docstring(node):
            own = _own_lines(node)
            is_function = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
            held = range(own.start, (getattr(node, "end_lineno", None) or own.start) + 1) if is_function else own
            inside.update(dict.fromkeys(own, held))
    return Text(inside, frozenset(functions), tuple(text.splitlines()))


def _own_lines(node: ast.AST) -> range:
    body = getattr(node, "body", None) or getattr(node, "cases", None)
    first = node.pattern.lineno if isinstance(node, ast.match_case) else getattr(node, "lineno", 1)
    if isinstance(body, list) and body:
        inner = body[0]
        begin = inner.pattern.lineno if isinstance(inner, ast.match_case) else inner.lineno
        decorators = [each.lineno for each in getattr(inner, "decorator_list", ())]
        return range(first, max(first + 1, min([begin, *decorators])))
    return range(first, (getattr(node, "end_lineno", None) or first) + 1)


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def is_only_comment(lines: Sequence[str]) -> bool:
    """Whether lines hold nothing but blanks and comments."""
    return all(not line.strip() or line.lstrip().startswith("#") for line in lines)


def new_functions(lines: Sequence[str]) -> frozenset[str]:
    """The names of the functions that added lines declare at the top of a module, if they hold nothing else.

    A function with a decorator may register itself, and a default is evaluated at once: then none.
    """
    try:
        tree = ast.parse("\n".join(lines))
    except SyntaxError:
        return frozenset()
    found = [node for node in tree.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    if len(found) != len(tree.body) or any(node.decorator_list for node in found):
        return frozenset()
    return frozenset(node.name for node in found)
