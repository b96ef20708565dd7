"""Exchanges functions and constants of modules that are imported already, for those of another text of their files.

A function keeps its identity: only its code and its defaults are replaced. So every table, decorator and import that
holds it sees the new one.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import gc
import importlib.util
import sys
import traceback
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any

from conformance.bisection.differences import Difference, definitions_of, is_function
from conformance.bisection.executed_code import below_torch
from conformance.sources.units import without_docstring


class ExchangeError(Exception):
    """A difference that cannot be exchanged while Python runs."""


#: Path below torch/, first line → the function objects with that code.
FunctionIndex = Mapping[tuple[str, int], Sequence[FunctionType]]


def function_index() -> FunctionIndex:
    """All function objects of torch in this process, also those that only decorators or tables hold."""
    found: dict[tuple[str, int], list[FunctionType]] = defaultdict(list)
    gc.unfreeze()  # what is frozen after imports is not among the objects
    for each in gc.get_objects():
        if type(each) is FunctionType and (path := below_torch(each.__code__.co_filename)):
            found[path, each.__code__.co_firstlineno].append(each)
    return found


class _Parsed(dict[str, Any]):
    """Path → what a function makes of its text, when it is asked for."""

    def __init__(self, texts: Mapping[str, str], parse: Callable[[str], Any]) -> None:
        super().__init__()
        self._texts, self._parse = texts, parse

    def __missing__(self, path: str) -> Any:
        self[path] = self._parse(self._texts[path])
        return self[path]


class Exchange:
    """Exchanges differences of files. `texts`: path below torch/ → the new text. `functions`: of the old ones, may be
    set anew.
    """

    def __init__(self, texts: Mapping[str, str], functions: FunctionIndex) -> None:
        self._texts, self.functions = texts, functions
        self._trees = _Parsed(texts, ast.parse)
        self._defined = _Parsed(texts, definitions_of)
        self._codes: dict[str, CodeType] = {}
        self._current: Difference | None = None

    def prepare(self, paths: Collection[str]) -> None:
        """Parses files before a fork, so that each child need not parse them again."""
        for path in paths:
            with contextlib.suppress(SyntaxError, KeyError):  # raised again in the child, whose answer it is
                _ = self._trees[path], self._defined[path]
                self._compiled(path)

    def apply(self, chosen: Sequence[Difference]) -> None:
        """Exchanges these. Raises ExchangeError, and what evaluating a default or a constant raises."""
        for path in {each.path for each in chosen}:
            functions = [each.name for each in chosen if each.path == path and each.kind != "value"]
            self._add_methods(path, functions)
        for each in chosen:
            self._current = each
            if each.kind == "function":
                self._exchange_function(each)
            elif each.kind == "new function":
                self._define(each)
            else:
                self._set_value(each)
        self._current = None

    def add_options(self, modules: Collection[ModuleType]) -> None:
        """Gives torch's config modules the options that only their new texts define, with their defaults."""
        kinds = vars(importlib.import_module("torch.utils._config_module"))
        for module in modules:
            options, path = vars(module)["_config"], path_of(module.__name__)
            for name, node in self._defined[path].items() if path in self._texts else ():
                if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value and name not in options:
                    with contextlib.suppress(Exception):  # who needs the option will miss it, and does not fit then
                        value = eval(compile(ast.Expression(node.value), path, "eval"), vars(module))  # noqa: S307 - torch's own text
                        option = value if isinstance(value, kinds["_Config"]) else kinds["_Config"](default=value)
                        options[name] = kinds["_ConfigEntry"](option, name)

    def culprit(self, error: BaseException, chosen: Sequence[Difference]) -> Difference | None:
        """Which of the exchanged functions raised this: the one that `apply` was at, or the innermost that was running.

        None if none of them was.
        """
        if self._current is not None:
            return self._current
        codes = dict[CodeType, Difference]()
        for each in chosen:
            with contextlib.suppress(ExchangeError, SyntaxError):
                if each.kind != "value":
                    codes[self._code(each.path, each.name)] = each
        found = None
        raised: BaseException | None = error
        while raised is not None:  # the first cause comes last
            for frame, _ in traceback.walk_tb(raised.__traceback__):
                found = codes.get(frame.f_code, found)
            raised = raised.__cause__ or raised.__context__
        return found

    def _exchange_function(self, difference: Difference) -> None:
        path, name = difference.path, difference.name
        functions = self.functions.get((path, difference.first), ())
        if not functions:
            raise ExchangeError(f"no function object of {difference.title}")
        code = self._code(path, name)
        self._add_imported_names(path, self._defined[path][name])
        for function in functions:
            self._add_names(path, code, function.__globals__)
            defaults, keywords = self._defaults(path, name, function.__globals__)
            if code.co_freevars != function.__code__.co_freevars:
                raise ExchangeError(f"{difference.title} has another closure")
            function.__code__ = code
            function.__defaults__, function.__kwdefaults__ = defaults, keywords

    def _define(self, difference: Difference) -> None:
        """Defines a new function or method with its decorators, as the new module would."""
        owner, _, name = difference.name.rpartition(".")
        if owner:
            setattr(self._owner(difference.path, owner), name, self._method(difference.path, owner, name))
            return
        module = _module(difference.path)
        self._add_names(difference.path, self._code(difference.path, name), vars(module))
        self._run(difference.path, self._defined[difference.path][name], vars(module))

    def _set_value(self, difference: Difference) -> None:
        module = _module(difference.path)
        node = self._defined[difference.path][difference.name]
        expression = ast.Expression(node.value)
        value = eval(compile(expression, difference.path, "eval"), vars(module))  # noqa: S307 - torch's own text
        owner, _, name = difference.name.rpartition(".")
        if type(module) is not ModuleType:  # torch's config modules keep their values elsewhere, by dotted names
            setattr(module, difference.name, value)
        else:
            setattr(self._owner(difference.path, owner) if owner else module, name, value)

    def _add_methods(self, path: str, functions: Sequence[str]) -> None:
        """Adds methods that these functions name and that classes of their file lack, and what those name in turn.

        A method that takes the place of an inherited one is a difference of its own. One that nobody names stays away:
        a property would hide an attribute of the old class.
        """
        asked, names = set(functions), list[str]()
        for function in functions:
            with contextlib.suppress(ExchangeError):
                names += _names(self._code(path, function))
        while names:
            name = names.pop()
            for full_name, node in self._defined[path].items():
                owner, _, last = full_name.rpartition(".")
                if last != name or not owner or full_name in asked or not is_function(node):
                    continue
                asked.add(full_name)
                holder = getattr(_module(path), owner, None)
                if isinstance(holder, type) and not hasattr(holder, name):
                    with contextlib.suppress(Exception):  # who needs the method will miss it, and does not fit then
                        setattr(holder, name, self._method(path, owner, name))
                        names += _names(self._code(path, full_name))

    def _method(self, path: str, owner: str, name: str) -> Any:
        holder, module = self._owner(path, owner), _module(path)
        code = self._code(path, f"{owner}.{name}")
        self._add_names(path, code, vars(module))
        defaults, keywords = self._defaults(path, f"{owner}.{name}", vars(module))
        cells = {"__class__": CellType(holder)}
        if any(each not in cells for each in code.co_freevars):
            raise ExchangeError(f"torch/{path}: {owner}.{name} has a closure")
        function = FunctionType(code, vars(module), name, defaults, tuple(cells[each] for each in code.co_freevars))
        function.__kwdefaults__ = keywords
        node = self._defined[path][f"{owner}.{name}"]
        result: Any = function
        for decorator in reversed(node.decorator_list):
            expression = ast.Expression(decorator)
            result = eval(compile(expression, path, "eval"), vars(module))(result)  # noqa: S307 - torch's own text
        return result

    def _owner(self, path: str, name: str) -> Any:
        holder: Any = _module(path)
        for part in name.split("."):
            holder = getattr(holder, part, None)
        if not isinstance(holder, type):
            raise ExchangeError(f"torch/{path} has no class {name}")
        return holder

    def _add_names(self, path: str, code: CodeType, namespace: dict[str, Any]) -> None:
        """Defines what the code names and the module lacks, by the statements of the new text."""
        for name in sorted(set(_names(code))):
            if name not in namespace and not hasattr(builtins, name):
                for node in self._statements_that_bind(path, name):
                    namespace[name] = None  # ends a circle of functions that call each other
                    self._add_names(path, compile(ast.Module([node], []), path, "exec"), namespace)
                    self._run(path, node, namespace)

    def _statements_that_bind(self, path: str, name: str) -> Iterator[ast.stmt]:
        for node in self._trees[path].body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == name:
                yield node
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                if any((each.asname or each.name.partition(".")[0]) == name for each in node.names):
                    chosen = [each for each in node.names if (each.asname or each.name.partition(".")[0]) == name]
                    yield ast.copy_location(
                        ast.Import(chosen)
                        if isinstance(node, ast.Import)
                        else ast.ImportFrom(node.module, chosen, node.level),
                        node,
                    )
            elif isinstance(node, (ast.Assign, ast.AnnAssign)):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                if any(isinstance(each, ast.Name) and each.id == name for each in targets):
                    yield node

    def _add_imported_names(self, path: str, node: ast.stmt) -> None:
        """Defines what the imports in a statement name and another old module lacks, by the new text of that."""
        for each in ast.walk(node):
            if isinstance(each, ast.ImportFrom):
                name = "." * each.level + (each.module or "")
                module = importlib.util.resolve_name(name, _package(path)) if each.level else name
                if source := self._path_of(module):
                    self._add_definitions(source, vars(importlib.import_module(module)), [a.name for a in each.names])

    def _add_definitions(self, path: str, namespace: dict[str, Any], names: Sequence[str]) -> None:
        for name in names:
            if name not in namespace:
                for statement in self._statements_that_bind(path, name):
                    namespace[name] = None
                    self._add_names(path, compile(ast.Module([statement], []), path, "exec"), namespace)
                    self._run(path, statement, namespace)

    def _path_of(self, module: str) -> str:
        """The path of a module of torch in the new texts; "" for another module."""
        place = module.removeprefix("torch.").replace(".", "/")
        found = (each for each in (f"{place}.py", f"{place}/__init__.py") if each in self._texts)
        return next(found, "") if module.startswith("torch.") else ""

    def _run(self, path: str, node: ast.stmt, namespace: dict[str, Any]) -> None:
        self._add_imported_names(path, node)
        flags = _annotations_flag(self._trees[path])
        tree = ast.Module([*flags, node], [])
        exec(compile(tree, sys.modules[_name(path)].__file__ or path, "exec", dont_inherit=True), namespace)  # noqa: S102

    def _defaults(self, path: str, name: str, namespace: dict[str, Any]) -> tuple[Any, Any]:
        node = self._defined[path][name]
        arguments = node.args
        values = [eval(compile(ast.Expression(each), path, "eval"), namespace) for each in arguments.defaults]  # noqa: S307
        keywords = {
            argument.arg: eval(compile(ast.Expression(each), path, "eval"), namespace)  # noqa: S307 - torch's own text
            for argument, each in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
            if each is not None
        }
        return tuple(values) or None, keywords or None

    def _code(self, path: str, name: str) -> CodeType:
        """The code of a function in the new text, without running the module."""
        code = self._compiled(path)
        for part in name.split("."):
            inner = [each for each in code.co_consts if isinstance(each, CodeType) and each.co_name == part]
            if not inner:
                raise ExchangeError(f"torch/{path}: {name} is not at the top of the module")
            code = inner[-1]
        return code

    def _compiled(self, path: str) -> CodeType:
        if path not in self._codes:
            file = getattr(sys.modules.get(_name(path)), "__file__", None) or path
            self._codes[path] = compile(self._texts[path], file, "exec", dont_inherit=True)
        return self._codes[path]


def _annotations_flag(tree: ast.Module) -> list[ast.stmt]:
    first = next(iter(without_docstring(tree.body)), None)
    return [first] if isinstance(first, ast.ImportFrom) and first.module == "__future__" else []


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _names(each)


def _name(path: str) -> str:
    parts = path.removesuffix(".py").split("/")
    return ".".join(["torch", *(parts[:-1] if parts[-1] == "__init__" else parts)])


def config_modules() -> list[ModuleType]:
    """Those of torch that are imported: their options are not their attributes."""
    loaded = [module for name, module in sys.modules.items() if name.startswith("torch.")]
    return [each for each in loaded if isinstance(vars(each).get("_config"), dict)]


def path_of(module: str) -> str:
    """The file of a module of torch, below torch/."""
    return f"{module.removeprefix('torch.').replace('.', '/')}.py"


def _package(path: str) -> str:
    """The package that relative imports in the module are relative to."""
    name = _name(path)
    return name if path.endswith("__init__.py") else name.rpartition(".")[0]


def _module(path: str) -> ModuleType:
    return importlib.import_module(_name(path))
