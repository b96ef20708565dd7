"""The statements of a file of cases that some of its names need, as text. The file is read, not run."""

from __future__ import annotations

import ast
import re
import symtable
import sys
from collections.abc import Iterator
from pathlib import Path

from conformance.errors import ConformanceError

#: Top-level packages that a script may import, beside Python's own.
AVAILABLE = ("torch", "triton")
#: Operators below these names come with torch.
_NAMESPACES = ("aten", "higher_order", "prims", "quantized", "inductor")


class NotSelfContainedError(ConformanceError):
    """A script for the case needs more than torch. The message is the reason, a part of a sentence."""


class ModuleText:
    """Collects statements. `need` adds those that bind a name, and all that they need themselves."""

    def __init__(self, file: Path) -> None:
        self._source = file.read_text(encoding="utf-8")
        self._lines = self._source.splitlines()
        self.tree = ast.parse(self._source)
        self._binders: dict[str, list[ast.stmt]] = {}
        for statement in self.tree.body:
            for name in _bound_names(statement):
                self._binders.setdefault(name, []).append(statement)
        self._needed: dict[str, None] = {}
        self._included: dict[ast.stmt, None] = {}

    def need(self, name: str) -> None:
        """Adds the statements that bind the module's global `name`; does nothing for a builtin.

        Raises NotSelfContainedError.
        """
        if name in self._needed or name not in self._binders:
            return
        self._needed[name] = None
        for statement in self._binders[name]:
            if isinstance(statement, (ast.Import, ast.ImportFrom)):
                _refuse_local_module(statement, name)
            elif isinstance(statement, ast.FunctionDef) and any(map(_is_case, statement.decorator_list)):
                raise NotSelfContainedError(f"it uses {name}, which is a case itself")
            else:
                self._include(statement)

    def need_names_of(self, text: str) -> None:
        """Adds what `text`, an expression or statements, needs. Raises NotSelfContainedError."""
        for namespace in re.findall(r"\btorch\.ops\.(\w+)", text):
            if namespace not in _NAMESPACES:
                raise NotSelfContainedError(
                    f"it uses the operators torch.ops.{namespace}, which do not come with torch"
                )
        for name in global_names(text):
            self.need(name)

    def case_function(self, name: str, line: int) -> str:
        """The text of the top-level function whose first line, or first decorator, is `line`; without @case.

        Adds what it needs. Raises NotSelfContainedError.
        """
        for statement in self.tree.body:
            if isinstance(statement, ast.FunctionDef) and statement.name == name and _first_line(statement) == line:
                text = self._text_without_case(statement)
                self.need_names_of(text)
                return text
        raise NotSelfContainedError(f"{name} is not written at the top level of its file")

    def imports(self) -> str:
        """All top-level imports of the file."""
        statements = [each for each in self.tree.body if isinstance(each, (ast.Import, ast.ImportFrom))]
        return "\n".join(ast.unparse(each) for each in statements if not _is_of_future(each))

    def text(self) -> str:
        """The imports, and the other statements in the order of the file."""
        for _ in self.tree.body:
            if not self._include_effects():
                break
        imports, others = [], []
        for statement in self.tree.body:
            if isinstance(statement, (ast.Import, ast.ImportFrom)):
                names = [each for each in statement.names if _bound_by(each) in self._needed and each.name != "torch"]
                if names:
                    imports.append(ast.unparse(_with_names(statement, names)))
            elif statement in self._included:
                is_definition = isinstance(statement, (ast.FunctionDef, ast.ClassDef))
                others.append(("\n\n" if is_definition else "") + self._text(statement))
        return "\n".join([*imports, *([""] if imports and others else []), *others])

    def _include(self, statement: ast.stmt) -> None:
        if statement not in self._included:
            self._included[statement] = None
            for name in _bound_names(statement):
                self._needed[name] = None
                for other in self._binders[name]:
                    if not isinstance(other, (ast.Import, ast.ImportFrom)):
                        self._include(other)
            self.need_names_of(self._text(statement))

    def _include_effects(self) -> bool:
        """Includes statements that change what is included, as `@operator.register_fake`. Whether there was one."""
        included = {name for statement in self._included for name in _bound_names(statement)}
        found = False
        for statement in self.tree.body:
            if statement in self._included or isinstance(statement, (ast.Import, ast.ImportFrom)):
                continue
            if any(map(_is_case, getattr(statement, "decorator_list", ()))):
                continue
            changing = [ast.unparse(each) for each in _effects(statement)]
            if any(included & set(global_names(text)) for text in changing):
                self._include(statement)
                found = True
        return found

    def _text(self, statement: ast.stmt) -> str:
        return "\n".join(self._lines[_first_line(statement) - 1 : statement.end_lineno])

    def _text_without_case(self, function: ast.FunctionDef) -> str:
        kept = [f"@{ast.unparse(each)}" for each in function.decorator_list if not _is_case(each)]
        return "\n".join([*kept, *self._lines[function.lineno - 1 : function.end_lineno]])


def global_names(text: str) -> Iterator[str]:
    """The global names that statements or an expression read, at the top or in functions."""
    tables = [symtable.symtable(text, "text", "exec")]
    top = tables[0]
    while tables:
        table = tables.pop()
        tables += table.get_children()
        for symbol in table.get_symbols():
            if symbol.is_referenced() and (table is top or symbol.is_global()):
                yield symbol.get_name()


def _bound_names(statement: ast.stmt) -> list[str]:
    """The module's global names that a top-level statement binds."""
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        return [statement.name]
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return [_bound_by(each) for each in statement.names]
    table = symtable.symtable(ast.unparse(statement), "text", "exec")
    return [symbol.get_name() for symbol in table.get_symbols() if symbol.is_assigned() or symbol.is_imported()]


def _effects(statement: ast.stmt) -> list[ast.expr] | list[ast.stmt]:
    """The parts of a top-level statement that may change an object when the file is imported."""
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        return statement.decorator_list
    if isinstance(statement, ast.Assign) and all(isinstance(target, ast.Name) for target in statement.targets):
        return []
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        return []
    return [statement]


def _first_line(statement: ast.stmt) -> int:
    return min([statement.lineno, *(each.lineno for each in getattr(statement, "decorator_list", ()))])


def _is_case(decorator: ast.expr) -> bool:
    return isinstance(decorator, ast.Call) and ast.unparse(decorator.func) in ("case", "conformance.case")


def _bound_by(alias: ast.alias) -> str:
    return alias.asname or alias.name.partition(".")[0]


def _with_names(statement: ast.Import | ast.ImportFrom, names: list[ast.alias]) -> ast.Import | ast.ImportFrom:
    if isinstance(statement, ast.Import):
        return ast.Import(names=names)
    return ast.ImportFrom(module=statement.module, names=names, level=statement.level)


def _is_of_future(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.ImportFrom) and statement.module == "__future__"


def _refuse_local_module(statement: ast.Import | ast.ImportFrom, name: str) -> None:
    if isinstance(statement, ast.ImportFrom):
        modules = ["." * statement.level + (statement.module or "")]
    else:
        modules = [alias.name for alias in statement.names if _bound_by(alias) == name]
    for module in modules:
        top = module.partition(".")[0]
        if top not in AVAILABLE and top not in sys.stdlib_module_names:
            raise NotSelfContainedError(f"it uses {name} of {module}")
