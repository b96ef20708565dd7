"""Whether an installed package has a name, from its sources: nothing is imported, so that it can be said at once.

Only what is certainly gone is called so. What comes from elsewhere (compiled, from another package, inherited from
another file's class) is left to looking at it once the package is imported.
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
    """`parts`: of its name, below the package in `folder`."""

    folder: Path
    parts: tuple[str, ...]

    def file(self) -> Path | None:
        """Its source, whether or not that exists; None where it may be compiled."""
        place = self.folder.joinpath(*self.parts)
        if (place / "__init__.py").exists():
            return place / "__init__.py"
        if self.parts and any(place.parent.glob(f"{place.name}.*.so")):
            return None
        return place.with_suffix(".py")

    def named(self, statement: ast.ImportFrom) -> _Module | None:
        """The module that is imported from; None for one of another package."""
        named = tuple((statement.module or "").split(".")) if statement.module else ()
        if not statement.level:
            return _Module(self.folder, named[1:]) if named[0] == self.folder.name else None
        file = self.file()
        own = self.parts if file is not None and file.name == "__init__.py" else self.parts[:-1]
        return _Module(self.folder, own[: len(own) - statement.level + 1] + named)


def is_missing(where: str, folder: Path) -> bool:
    """Whether "package.module:attribute.path" is certainly not there. `folder`: the package's own."""
    module, _, path = where.partition(":")
    package, *parts = module.split(".")
    return package == folder.name and not _may_be(_Module(folder, tuple(parts)), path.split("."))


def _may_be(module: _Module, names: Sequence[str]) -> bool:
    file = module.file()
    if file is None:
        return True
    text = _text(file)
    return text is not None and (_stands_plainly(text, names) or _may_have(_tree(text).body, names, module))


@cache
def _text(file: Path) -> str | None:
    return file.read_text(encoding="utf-8") if file.exists() else None


@cache
def _tree(text: str) -> ast.Module:
    return ast.parse(text)


def _stands_plainly(text: str, names: Sequence[str]) -> bool:
    """What the lines of a well-kept file show: most names; parsing takes much longer."""
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
    return any(_stands_plainly(text, [base, name]) for base in re.findall(r"[\w.]+", begin[1] or ""))


def _may_have(body: Sequence[ast.stmt], names: Sequence[str], module: _Module) -> bool:
    """Whether the body of a module or a class may bind the first of the names, and that has the others."""
    name, *rest = names
    for statement in _statements(body):
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            if any((each.asname or each.name.partition(".")[0]) == name for each in statement.names):
                return True
            if isinstance(statement, ast.ImportFrom) and statement.names[0].name == "*":
                source = module.named(statement)
                if source is None or (source != module and _may_be(source, names)):
                    return True
        elif isinstance(statement, ast.ClassDef):
            if statement.name == name and (not rest or _class_may_have(statement, rest, module)):
                return True
        elif isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            if statement.name in (name, "__getattr__"):
                return True
        elif name in _assigned(statement):
            return True
    return False


def _class_may_have(found: ast.ClassDef, names: Sequence[str], module: _Module) -> bool:
    if hasattr(object, names[0]) or found.keywords or _may_have(found.body, names, module):
        return True
    file = module.file()
    whole = _tree(_text(file) or "").body if file else []
    local = {each.name: each for each in _statements(whole) if isinstance(each, ast.ClassDef) and each is not found}
    for base in found.bases:
        if not isinstance(base, ast.Name) or base.id not in local:
            return True  # from another file: only importing it can tell
        if _class_may_have(local[base.id], names, module):
            return True
    return False


def _statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Of the body and of what stands in it under if, try, with or for; not inside functions and classes."""
    for statement in body:
        yield statement
        if not isinstance(statement, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            inner = [getattr(statement, field, []) for field in ("body", "orelse", "finalbody")]
            inner += [handler.body for handler in getattr(statement, "handlers", [])]
            for each in inner:
                yield from _statements(each)


def _assigned(statement: ast.stmt) -> set[str]:
    """Names that an assignment, a loop or a with statement binds."""
    kinds = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.For, ast.With)
    if not isinstance(statement, kinds):
        return set()
    heads = [value for field, value in ast.iter_fields(statement) if field not in ("body", "orelse")]
    nodes = [node for head in heads for node in (head if isinstance(head, list) else [head])]
    walked = (inner for node in nodes if isinstance(node, ast.AST) for inner in ast.walk(node))
    return {each.id for each in walked if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
