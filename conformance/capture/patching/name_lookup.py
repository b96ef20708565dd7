"""Finds out from a package's sources whether it has a name. Importing nothing, this is fast.

A name counts as missing only if that is certain. Names from compiled modules, from other packages and from base classes
in other files count as present: only importing the package can tell.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True)
class _Module:
    """`folder`: of the package. `parts`: the module's name below the package."""

    folder: Path
    parts: tuple[str, ...]

    def file(self) -> Path | None:
        """The path of its source, which may not exist. None if the module is compiled."""
        base = self.folder.joinpath(*self.parts)
        if (base / "__init__.py").exists():
            return base / "__init__.py"
        if self.parts and any(base.parent.glob(f"{base.name}.*.so")):
            return None
        return base.with_suffix(".py")

    def imported_module(self, statement: ast.ImportFrom) -> _Module | None:
        """The module that the statement imports from; None for a module of another package."""
        named = tuple((statement.module or "").split(".")) if statement.module else ()
        if not statement.level:
            return _Module(self.folder, named[1:]) if named[0] == self.folder.name else None
        file = self.file()
        package = self.parts if file is not None and file.name == "__init__.py" else self.parts[:-1]
        return _Module(self.folder, package[: len(package) - statement.level + 1] + named)


def is_missing(where: str, folder: Path) -> bool:
    """Whether "package.module:attribute.path" certainly does not exist. `folder`: the package's folder."""
    module, _, path = where.partition(":")
    package, *parts = module.split(".")
    return package == folder.name and not _may_exist(_Module(folder, tuple(parts)), path.split("."))


def _may_exist(module: _Module, names: Sequence[str]) -> bool:
    file = module.file()
    if file is None:
        return True
    source = _source(file)
    return source is not None and (_is_in_text(source, names) or _may_bind(_tree(source).body, names, module))


@cache
def _source(file: Path) -> str | None:
    return file.read_text(encoding="utf-8") if file.exists() else None


@cache
def _tree(text: str) -> ast.Module:
    return ast.parse(text)


def _is_in_text(text: str, names: Sequence[str]) -> bool:
    """Whether a search in the text finds the name. It finds most names, much faster than parsing does."""
    *owner, name = names
    if not owner:
        name = re.escape(name)
        bound = rf"(?:async def|def|class) {name}\b|{name}\s*[:=]|    {name},$|from \S+ import .*\b{name}\b"
        return bool(re.search(rf"^(?:{bound})", text, re.MULTILINE))
    begin = re.search(rf"^class {re.escape(owner[0])}\b(?:\((.*)\))?:", text, re.MULTILINE) if len(owner) == 1 else None
    if begin is None:
        return False
    end = re.compile(r"^[A-Za-z@#]", re.MULTILINE).search(text, begin.end())
    method = re.compile(rf"^    (?:async )?def {re.escape(name)}\b", re.MULTILINE)
    if method.search(text, begin.end(), end.start() if end else len(text)):
        return True
    return any(_is_in_text(text, [base, name]) for base in re.findall(r"[\w.]+", begin[1] or ""))


def _may_bind(body: Sequence[ast.stmt], names: Sequence[str], module: _Module) -> bool:
    """Whether the body of a module or class may bind the first name to an object that has the other names."""
    name, *rest = names
    for statement in _statements(body):
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            if any((each.asname or each.name.partition(".")[0]) == name for each in statement.names):
                return True
            if isinstance(statement, ast.ImportFrom) and statement.names[0].name == "*":
                source = module.imported_module(statement)
                if source is None or (source != module and _may_exist(source, names)):
                    return True
        elif isinstance(statement, ast.ClassDef):
            if statement.name == name and (not rest or _class_may_bind(statement, rest, module)):
                return True
        elif isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            if statement.name in (name, "__getattr__"):
                return True
        elif name in _assigned_names(statement):
            return True
    return False


def _class_may_bind(definition: ast.ClassDef, names: Sequence[str], module: _Module) -> bool:
    if hasattr(object, names[0]) or definition.keywords or _may_bind(definition.body, names, module):
        return True
    file = module.file()
    in_module = _statements(_tree(_source(file) or "").body if file else [])
    local = {each.name: each for each in in_module if isinstance(each, ast.ClassDef) and each is not definition}
    for base in definition.bases:
        if not isinstance(base, ast.Name) or base.id not in local:
            return True  # a class of another file: only importing it can tell
        if _class_may_bind(local[base.id], names, module):
            return True
    return False


def _statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a body, with those under if, try, with and for; not those inside functions and classes."""
    for statement in body:
        yield statement
        if not isinstance(statement, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            inner = [getattr(statement, field, []) for field in ("body", "orelse", "finalbody")]
            inner += [handler.body for handler in getattr(statement, "handlers", [])]
            for each in inner:
                yield from _statements(each)


def _assigned_names(statement: ast.stmt) -> set[str]:
    """The names that an assignment, a loop or a with statement binds."""
    kinds = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.For, ast.With)
    if not isinstance(statement, kinds):
        return set()
    heads = [value for field, value in ast.iter_fields(statement) if field not in ("body", "orelse")]
    nodes = [node for head in heads for node in (head if isinstance(head, list) else [head])]
    walked = (inner for node in nodes if isinstance(node, ast.AST) for inner in ast.walk(node))
    return {each.id for each in walked if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
