"""All mutants of a file, in order, and the changed syntax tree of one.

Only code inside functions has mutants: code of a module runs once, when it is imported.
"""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mutation.operators import Edit, edits
from mutation.sources import CHOICES, ONLY, Source

#: Areas whose strings are generated code.
TEXT_AREAS = frozenset({"codegen", "codegen cpp", "codegen triton", "wrapper"})
_TEXT_FILES = frozenset({"utils/_sympy/printers.py", "_inductor/kernel/flex/flex_attention.py"})
#: Calls for people: their arguments change nothing that runs.
_FOR_PEOPLE = frozenset({"warn", "warning", "warnings", "counters", "metrics", "traceback", "_check", "_warn_once"})
_DEBUG_FUNCTIONS = frozenset({"__repr__()", "__str__()", "__hash__()", "str_helper()", "name_helper()", "log()"})
#: Functions whose name has one of these change no result: they write comments, checks, names and statistics.
_DEBUG_PARTS = ("assert", "benchmark", "comment", "debug", "inductor_meta", "metadata", "profil", "provenance", "warn")

Path = tuple[tuple[str, int | None], ...]


@dataclass(frozen=True)
class Mutant:
    """One change of one function.

    `file`: below torch's folder. `function`: its qualified name. `line`, `column`: of the changed node.
    `statement`: the first line of the statement it is in. `top`: index of the module's statement, and `path` the way
    from there to the node. `number`: of the edits of that node. `index`: among the function's of the same operator.
    """

    area: str
    file: str
    function: str
    line: int
    column: int
    statement: int
    operator: str
    before: str
    after: str
    top: int
    path: Path
    number: int
    index: int

    @property
    def id(self) -> str:
        """The same after lines were added elsewhere in the file."""
        return f"{self.file}:{self.function}: {self.operator} {self.index}: {self.before} → {self.after}"


class Tree:
    """The syntax tree of one file. `skipped`: how many mutants of unwanted lines `mutants` left out."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.module = ast.parse(source.text)
        self.skipped = 0

    def mutants(self, is_wanted: Callable[[int, int], bool] | None = None) -> list[Mutant]:
        """All mutants, or those of lines that are wanted: of a line and the first line of its statement."""
        result: list[Mutant] = []
        self.skipped = 0
        counts: Counter[tuple[tuple[str, ...], str]] = Counter()
        only = ONLY.get(self.source.name)
        text = self.source.area in TEXT_AREAS or self.source.name in _TEXT_FILES
        for top, statement in enumerate(self.module.body):
            for place in _places(statement):
                if only is not None and not only & set(place.function):
                    continue
                if not CHOICES.isdisjoint(place.function):
                    continue
                wanted = is_wanted is None or is_wanted(place.node.lineno, place.statement)
                for number, edit in enumerate(edits(place.node, text=text)):
                    counted = (place.function, edit.operator)
                    counts[counted] += 1
                    if wanted:
                        result.append(_mutant(self.source, place, top, number, edit, counts[counted]))
                    else:
                        self.skipped += 1
        return result

    def statement(self, mutant: Mutant | None, top: int) -> ast.Module:
        """A module with one statement, as it stands in the file or with a mutant."""
        futures = [
            each for each in self.module.body if isinstance(each, ast.ImportFrom) and each.module == "__future__"
        ]
        statement = self.module.body[top]
        if mutant is not None:
            statement = copy.deepcopy(statement)
            parent: Any = None
            node: Any = statement
            for field, index in mutant.path:
                parent = node
                node = getattr(node, field) if index is None else getattr(node, field)[index]
            text = self.source.area in TEXT_AREAS or self.source.name in _TEXT_FILES
            new = list(edits(node, text=text))[mutant.number].new
            field, index = mutant.path[-1]
            new = ast.copy_location(new, node)
            if index is None:
                setattr(parent, field, new)
            else:
                getattr(parent, field)[index] = new
            ast.fix_missing_locations(statement)
        return ast.Module([*futures, statement], [])


@dataclass(frozen=True)
class _Place:
    node: Any
    path: Path
    function: tuple[str, ...]
    statement: int


def _places(statement: ast.stmt) -> list[_Place]:
    """The nodes inside functions that may change."""
    found: list[_Place] = []
    _add_places(found, statement, (), (), 0)
    return found


def _add_places(found: list[_Place], node: ast.AST, path: Path, function: tuple[str, ...], statement: int) -> None:
    """`function`: the names around the node; those of functions end with "()"."""
    if isinstance(node, (ast.Raise, ast.Assert, ast.Import, ast.ImportFrom)) or _is_for_people(node):
        return
    if isinstance(node, ast.stmt):
        statement = node.lineno
    name = _name(node)
    inside = any(each.endswith("()") for each in function)
    if inside and hasattr(node, "lineno") and (not name or isinstance(node, ast.Lambda)):
        found.append(_Place(node, path, tuple(each.removesuffix("()") for each in function), statement))
    if name in _DEBUG_FUNCTIONS or any(part in name for part in _DEBUG_PARTS) or _is_overload(node):
        return
    function = (*function, name) if name else function
    for field, value in ast.iter_fields(node):
        if (name and field != "body") or field == "annotation":
            continue  # decorators, defaults and types: they are evaluated at import, or never
        if isinstance(value, ast.AST):
            _add_places(found, value, (*path, (field, None)), function, statement)
        elif isinstance(value, list):
            for index, each in enumerate(value):
                if isinstance(each, ast.AST) and not _is_docstring(each):
                    _add_places(found, each, (*path, (field, index)), function, statement)


def _name(node: ast.AST) -> str:
    """Of a class; of a function with "()"; "" of anything else."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return f"{node.name}()"
    if isinstance(node, ast.Lambda):
        return "<lambda>()"
    return node.name if isinstance(node, ast.ClassDef) else ""


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_overload(node: ast.AST) -> bool:
    decorators = getattr(node, "decorator_list", [])
    return any(isinstance(each, ast.Name) and each.id == "overload" for each in decorators)


def _is_for_people(node: ast.AST) -> bool:
    """A statement or a call that logs, warns, counts or checks."""
    if isinstance(node, ast.Expr):
        node = node.value
    if isinstance(node, ast.AugAssign):
        node = node.target
    elif not isinstance(node, ast.Call):
        return False
    names: list[str] = []
    while isinstance(node, (ast.Call, ast.Attribute, ast.Subscript)):
        if isinstance(node, ast.Attribute):
            names.append(node.attr)
        node = node.func if isinstance(node, ast.Call) else node.value
    root = node.id if isinstance(node, ast.Name) else ""
    return root.endswith("log") or not _FOR_PEOPLE.isdisjoint([root, *names])


def _mutant(source: Source, place: _Place, top: int, number: int, edit: Edit, index: int) -> Mutant:
    return Mutant(
        source.area,
        source.name,
        ".".join(place.function),
        place.node.lineno,
        place.node.col_offset,
        place.statement,
        edit.operator,
        _short(place.node),
        _short(edit.new),
        top,
        place.path,
        number,
        index,
    )


def _short(node: ast.AST) -> str:
    """The node's source on one line; of an `if`, its condition alone."""
    shown = node.test if isinstance(node, (ast.If, ast.IfExp)) else node
    text = " ".join(ast.unparse(shown).split())
    return text if len(text) <= 160 else f"{text[:100]} … {text[-57:]}"
