"""The units of a Python file: its functions and methods, and its skeleton. Two texts differ in some of them.

A function inside a function belongs to the outer one. The skeleton is all that runs when the module is imported:
imports, constants, classes, decorators, defaults, and which functions there are. Comments and docstrings belong to
nothing.
"""

from __future__ import annotations

import ast
import bisect
import functools
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

#: The name of the skeleton beside those of functions.
SKELETON = "<module>"
#: A function under one of these decorators is read as text by another compiler: its body belongs to the skeleton.
_READ_AS_TEXT = ("jit", "script", "heuristics", "autotune")


@dataclass(frozen=True)
class Unit:
    """A function. `name`: `TritonKernel.load`. `first`, `last`: its lines, with its decorators. `text`: its source."""

    name: str
    first: int
    last: int
    text: str


@dataclass(frozen=True)
class Units:
    """The functions of one file, by name. Of two with one name, the last one, with the text of both."""

    functions: dict[str, Unit]
    skeleton: str
    _meanings: dict[str, ast.AST]

    def meaning(self, name: str) -> str:
        """A text that is equal for two functions that run the same."""
        return _dump(self._meanings[name])

    def at(self, line: int) -> str:
        """The name of the function that holds a line, else that of the skeleton."""
        place = bisect.bisect_right(self._starts, line) - 1
        unit = self._in_order[place] if place >= 0 else None
        return unit.name if unit is not None and line <= unit.last else SKELETON

    @functools.cached_property
    def _in_order(self) -> list[Unit]:
        return sorted(self.functions.values(), key=lambda unit: unit.first)

    @functools.cached_property
    def _starts(self) -> list[int]:
        return [unit.first for unit in self._in_order]


@functools.lru_cache(maxsize=400)
def units_of(text: str) -> Units:
    """Raises SyntaxError, as Python would when it imports the text."""
    tree, lines = ast.parse(text), text.splitlines()
    functions: dict[str, Unit] = {}
    meanings: dict[str, ast.AST] = {}
    for name, node in _functions(tree, ""):
        first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
        last = node.end_lineno or node.lineno
        source = "\n".join(lines[first - 1 : last])
        before = functions.get(name)
        functions[name] = Unit(name, first, last, f"{before.text}\n{source}" if before else source)
        together = [*getattr(meanings.get(name), "body", []), *without_docstring(node.body)] if before else None
        meanings[name] = ast.Module(together or without_docstring(node.body), [])
    for _, node in list(_functions(tree, "")):
        node.body = []
    return Units(functions, hashlib.sha256(_dump(_without_docstrings(tree)).encode()).hexdigest(), meanings)


def changed_units(old: str, new: str) -> set[str]:
    """The names of functions whose bodies differ, and SKELETON if anything else differs. Raises SyntaxError.

    A function that only one text has is a change of the skeleton: it may take the place of an inherited one.
    """
    before, after = units_of(old), units_of(new)
    changed = {SKELETON} if before.skeleton != after.skeleton else set()
    for name in before.functions.keys() & after.functions.keys():
        one, other = before.functions[name], after.functions[name]
        if one.text != other.text and before.meaning(name) != after.meaning(name):
            changed.add(name)
    return changed


def _functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            if not any(_is_read_as_text(each) for each in child.decorator_list):
                yield f"{prefix}{child.name}", child
        elif isinstance(child, ast.ClassDef):
            yield from _functions(child, f"{prefix}{child.name}.")
        elif isinstance(child, ast.stmt | ast.ExceptHandler):  # such as `if TYPE_CHECKING:` and `try:`
            yield from _functions(child, prefix)


def _is_read_as_text(decorator: ast.expr) -> bool:
    function = decorator.func if isinstance(decorator, ast.Call) else decorator
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return name in _READ_AS_TEXT or name.endswith("_jit")


def without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    first = body[0] if body else None
    text = first.value if isinstance(first, ast.Expr) else None
    return body[1:] if isinstance(text, ast.Constant) and isinstance(text.value, str) else body


def _without_docstrings(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef)):
            node.body = without_docstring(node.body)
    return tree


def _dump(node: ast.AST) -> str:
    return ast.dump(node)
