"""The differences between two texts of a Python file that can be exchanged one by one while Python runs."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from conformance.sources.units import without_docstring

_WORD = re.compile(r"[A-Za-z_][A-Za-z_0-9]{2,}")


@dataclass(frozen=True)
class Difference:
    """`path`: below torch/. `name`: `TritonKernel.load` or `config.NAME`. `first`: the first line in the old text.

    `kind`: "function" in both texts; "new function" only in the new one; "removed method" of a class that the new one
    has without it; "value" of a constant; "fields" of a dataclass or a named tuple. `words`: of the lines that only one
    text has.
    """

    path: str
    name: str
    kind: str
    first: int
    words: frozenset[str]

    @property
    def title(self) -> str:
        note = {"new function": " (new)", "removed method": " (removed)", "fields": " (fields)"}.get(self.kind, "")
        return f"torch/{self.path}: {self.name}{note}"

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "words": sorted(self.words)}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Difference:
        return cls(**{**data, "words": frozenset(data["words"])})


def differences(path: str, old: str, new: str) -> list[Difference]:
    """The differences between two texts of a file. Raises SyntaxError."""
    before, after = definitions_of(old), definitions_of(new)
    old_lines, new_lines = old.splitlines(), new.splitlines()
    old_classes, new_classes = classes_of(old), classes_of(new)
    found = list(_different_fields(path, old_classes, new_classes))
    with_fields = {each.name for each in found}
    for name, node in after.items():
        if not is_function(node) and name.rpartition(".")[0] in with_fields:
            continue  # a field
        counterpart = before.get(name)
        if counterpart is None:
            owner = name.rpartition(".")[0]
            if is_function(node) and (not owner or owner in old_classes):  # a new class comes as a whole
                found.append(Difference(path, name, "new function", 0, _words(_lines(node, new_lines), [])))
        elif _lines(node, new_lines) == _lines(counterpart, old_lines) or is_function(node) != is_function(counterpart):
            continue
        elif meaning(node) != meaning(counterpart):
            kind = "function" if is_function(node) else "value"
            words = _words(_lines(node, new_lines), _lines(counterpart, old_lines))
            found.append(Difference(path, name, kind, first_line_of(counterpart), words))
    for name, node in before.items():
        if name not in after and is_function(node) and name.rpartition(".")[0] in new_classes:
            words = _words(_lines(node, old_lines), [])
            found.append(Difference(path, name, "removed method", first_line_of(node), words))
    return found


def _different_fields(
    path: str, old: Mapping[str, ast.ClassDef], new: Mapping[str, ast.ClassDef]
) -> Iterator[Difference]:
    for name in sorted(old.keys() & new.keys()):
        one, other = old[name], new[name]
        if _has_fields(one) and _has_fields(other) and _fields(one) != _fields(other):
            changed = {text for _, text in set(_fields(one)) ^ set(_fields(other))}
            yield Difference(path, name, "fields", first_line_of(one), _words(sorted(changed), []))


@functools.lru_cache(maxsize=64)
def classes_of(text: str) -> dict[str, ast.ClassDef]:
    """The classes of a module and of its classes: `Class.Inner`. Raises SyntaxError."""
    return dict(_classes(ast.parse(text)))


def _classes(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, ast.ClassDef]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef):
            yield f"{prefix}{node.name}", node
            yield from _classes(node, f"{prefix}{node.name}.")
        elif isinstance(node, (ast.stmt, ast.ExceptHandler)) and not is_function(node):
            yield from _classes(node, prefix)


def _has_fields(node: ast.ClassDef) -> bool:
    names = [ast.unparse(each) for each in (*node.decorator_list, *node.bases)]
    return any("dataclass" in each or each.endswith("NamedTuple") for each in names)


def _fields(node: ast.ClassDef) -> list[tuple[str, str]]:
    """Name and value of each field, in order."""
    return [
        (each.target.id, f"{each.target.id} {ast.unparse(each.value) if each.value else ''}")
        for each in node.body
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
    ]


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
