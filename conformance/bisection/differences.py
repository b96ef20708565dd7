"""The differences between two texts of a Python file that can be exchanged one by one while Python runs."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from conformance.sources.units import without_docstring

_WORD = re.compile(r"[A-Za-z_][A-Za-z_0-9]{2,}")


@dataclass(frozen=True)
class Difference:
    """`path`: below torch/. `name`: `TritonKernel.load` or `config.NAME`. `first`: the first line in the old text.

    `kind`: "function" in both texts; "new function" only in the new one; "value" of a constant. `words`: of the lines
    that only one text has.
    """

    path: str
    name: str
    kind: str
    first: int
    words: frozenset[str]

    @property
    def title(self) -> str:
        return f"torch/{self.path}: {self.name}{' (new)' if self.kind == 'new function' else ''}"

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "words": sorted(self.words)}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Difference:
        return cls(**{**data, "words": frozenset(data["words"])})


def differences(path: str, old: str, new: str) -> list[Difference]:
    """Those of a file. Raises SyntaxError."""
    before, after = definitions_of(old), definitions_of(new)
    old_lines, new_lines = old.splitlines(), new.splitlines()
    found = []
    for name, node in after.items():
        counterpart = before.get(name)
        if counterpart is None:
            if is_function(node):
                found.append(Difference(path, name, "new function", 0, _words(_lines(node, new_lines), [])))
        elif _lines(node, new_lines) == _lines(counterpart, old_lines) or is_function(node) != is_function(counterpart):
            continue
        elif meaning(node) != meaning(counterpart):
            kind = "function" if is_function(node) else "value"
            words = _words(_lines(node, new_lines), _lines(counterpart, old_lines))
            found.append(Difference(path, name, kind, first_line_of(counterpart), words))
    return found


@functools.lru_cache(maxsize=64)
def definitions_of(text: str) -> dict[str, ast.stmt]:
    """The same as `definitions`, of a text. Raises SyntaxError."""
    return dict(definitions(ast.parse(text)))


def places(text: str) -> list[tuple[int, int, str]]:
    """First line, last line and name of each function, in order. Raises SyntaxError."""
    return sorted(
        (first_line_of(node), node.end_lineno or node.lineno, name)
        for name, node in definitions_of(text).items()
        if is_function(node)
    )


def definitions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, ast.stmt]]:
    """The functions and constants of a module and of its classes: `NAME`, `Class.NAME`."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield f"{prefix}{node.name}", node
        elif isinstance(node, ast.ClassDef):
            yield from definitions(node, f"{prefix}{node.name}.")
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            target = node.targets[0] if isinstance(node, ast.Assign) and len(node.targets) == 1 else None
            target = node.target if isinstance(node, ast.AnnAssign) else target
            if isinstance(target, ast.Name) and node.value is not None:
                yield f"{prefix}{target.id}", node
        elif isinstance(node, (ast.stmt, ast.ExceptHandler)):
            yield from definitions(node, prefix)


def is_function(node: ast.AST) -> bool:
    return isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))


def first_line_of(node: ast.stmt) -> int:
    decorators = getattr(node, "decorator_list", ())
    return min([node.lineno, *(each.lineno for each in decorators)])


def meaning(node: ast.stmt) -> str:
    """Equal for two definitions that behave the same: annotations, comments and docstrings do not count."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        arguments = node.args
        names = [each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
        star = [each.arg if each else "" for each in (arguments.vararg, arguments.kwarg)]
        defaults = [ast.dump(each) if each else "" for each in (*arguments.defaults, *arguments.kw_defaults)]
        body = [ast.dump(each) for each in without_docstring(node.body)]
        return repr((names, star, defaults, [ast.dump(each) for each in node.decorator_list], body))
    value = node.value if isinstance(node, (ast.Assign, ast.AnnAssign)) else None
    return ast.dump(value) if value is not None else ""


def _lines(node: ast.stmt, lines: list[str]) -> list[str]:
    return lines[first_line_of(node) - 1 : node.end_lineno]


def _words(lines: list[str], others: list[str]) -> frozenset[str]:
    one, other = {line.strip() for line in lines}, {line.strip() for line in others}
    return frozenset(word for line in one ^ other for word in _WORD.findall(line))
