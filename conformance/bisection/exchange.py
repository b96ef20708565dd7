"""Exchanges functions and constants of modules that are imported already, for those of another text of their files.

A function keeps its identity: only its code and its defaults are replaced. So every table, decorator and import that
holds it sees the new one.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import dataclasses
import gc
import importlib.util
import inspect
import re
import sys
import traceback
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any

from conformance.bisection.differences import Difference, classes_of, definitions_of, is_function
from conformance.bisection.executed_code import below_torch
from conformance.bisection.missing_names import give_names
from conformance.sources.units import without_docstring


class ExchangeError(Exception):
    """A difference that cannot be exchanged while Python runs."""


#: Kinds of differences that have code of the new text.
_FUNCTIONS = ("function", "new function")
#: How Python words a call that does not fit: it names the function that was called.
_WRONG_CALL = re.compile(r"^([\w.]+)\(\) (?:got|missing|takes) ")
#: What `dataclass` makes of the fields.
_OF_FIELDS = ("__init__", "__repr__", "__eq__", "__hash__", "__match_args__", "__dataclass_fields__")

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
    set anew. `members`: path and name of methods that only new texts have, of classes that the old ones have too.
    """

    def __init__(
        self, texts: Mapping[str, str], functions: FunctionIndex, members: Collection[tuple[str, str]] = ()
    ) -> None:
        self._texts, self.functions = texts, functions
        self._members = defaultdict[str, list[tuple[str, str]]](list)
        for path, name in members:
            self._members[name.rpartition(".")[2]].append((path, name))
        self._trees = _Parsed(texts, ast.parse)
        self._defined = _Parsed(texts, definitions_of)
        self._classes = _Parsed(texts, classes_of)
        self._bound = _Parsed(texts, lambda text: _bound(ast.parse(text)))
        self._codes: dict[str, CodeType] = {}
        self._current: Difference | None = None

    def prepare(self, chosen: Sequence[Difference], modules: Collection[ModuleType]) -> None:
        """Parses the files of these before a fork, so that each child need not parse them again."""
        self.parse({each.path for each in chosen} | {path_of(each.__name__) for each in modules})

    def parse(self, paths: Collection[str]) -> None:
        for path in paths:
            with contextlib.suppress(SyntaxError, KeyError):  # raised again in the child, whose answer it is
                _ = self._trees[path], self._defined[path], self._classes[path], self._bound[path]
                self._compiled(path)

    @property
    def parsed(self) -> list[str]:
        """The files that were needed so far."""
        return sorted({*self._trees, *self._defined, *self._classes, *self._bound, *self._codes})

    def apply(self, chosen: Sequence[Difference]) -> None:
        """Exchanges these. Raises ExchangeError, and what evaluating a default or a constant raises."""
        for each in chosen:
            if each.kind == "fields":
                self._current = each
                self._exchange_fields(each)
        self._current = None
        self._add_members([each for each in chosen if each.kind in _FUNCTIONS])
        exchange = {
            "new function": self._define,
            "function": self._exchange_function,
            "removed method": self._remove,
            "value": self._set_value,  # may call the others
        }
        for kind, do in exchange.items():
            for each in chosen:
                if each.kind == kind:
                    self._current = each
                    do(each)
        self._current = None

    def add_options(self, modules: Collection[ModuleType]) -> None:
        """Gives torch's config modules the options that only their new texts define, with their defaults.

        A class of options with the name of an old option stays away: the module cannot have both.
        """
        kinds = vars(importlib.import_module("torch.utils._config_module"))
        takes_name = "name" in inspect.signature(kinds["_ConfigEntry"]).parameters  # in torch 2.11 it takes none
        for module in modules:
            options, path = vars(module)["_config"], path_of(module.__name__)
            for name, node in self._defined[path].items() if path in self._texts else ():
                if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value and name not in options:
                    owner = name.rpartition(".")[0]
                    if owner in options:
                        continue
                    if owner and "." not in owner and owner not in vars(module):  # a new class of options
                        vars(module)[owner] = kinds["SubConfigProxy"](module, f"{owner}.")
                    with contextlib.suppress(Exception):  # who needs the option will miss it, and does not fit then
                        value = self._value(path, _without_new_keywords(node.value, kinds), vars(module))
                        option = value if isinstance(value, kinds["_Config"]) else kinds["_Config"](default=value)
                        options[name] = kinds["_ConfigEntry"](option, *([name] if takes_name else []))

    def open_modules(self) -> None:
        """Lets the modules of torch define what only their new texts define, when somebody asks for it by its name."""
        for name, module in list(sys.modules.items()):
            if name.startswith("torch.") and type(module) is ModuleType and getattr(module, "__file__", None):
                give_names(module, self._defined_names)

    def _defined_names(self, module: ModuleType, name: str) -> Mapping[str, Any]:
        if path := self._path_of(module.__name__):
            self._add_definitions(path, vars(module), [name])
        return vars(module) if path else {}

    def culprit(self, error: BaseException, chosen: Sequence[Difference]) -> Difference | None:
        """Which of the exchanged functions raised this: the one that `apply` was at, or one that old code calls in
        another way, or the innermost that was running.

        None if none of them was.
        """
        if self._current is not None:
            return self._current
        codes = dict[CodeType, Difference]()
        for each in chosen:
            with contextlib.suppress(ExchangeError, SyntaxError):
                if each.kind in _FUNCTIONS:
                    codes |= dict.fromkeys(_with_inner(self._code(each.path, each.name)), each)
        found, called = None, dict[str, Difference]()
        for each in chosen:
            called[f"{each.name}.__init__" if each.kind == "fields" else each.name] = each
        raised: BaseException | None = error
        while raised is not None:  # the first cause comes last
            wrong_call = _WRONG_CALL.match(str(raised)) if isinstance(raised, TypeError) else None
            if wrong_call and wrong_call[1] in called:
                return called[wrong_call[1]]
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
        owner, _, last = name.rpartition(".")
        if code.co_freevars == ("__class__",) and not any(each.__code__.co_freevars for each in functions):
            setattr(self._owner(path, owner), last, self._method(path, owner, last))  # it calls super() now
            return
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
        vars(module).setdefault(name, None)  # it may call itself
        self._run(difference.path, self._defined[difference.path][name], vars(module))

    def _set_value(self, difference: Difference) -> None:
        module = _module(difference.path)
        node = self._defined[difference.path][difference.name]
        value = self._value(difference.path, node.value, vars(module))
        owner, _, name = difference.name.rpartition(".")
        if type(module) is not ModuleType:  # torch's config modules keep their values elsewhere, by dotted names
            setattr(module, difference.name, value)
        elif owner:
            setattr(self._owner(difference.path, owner), name, value)
        else:
            old = getattr(module, name, None)
            setattr(module, name, value)
            if old is not None and not isinstance(old, (bool, int, float, str)):  # those may be equal by chance
                _replace_everywhere(name, old, value)

    def _remove(self, difference: Difference) -> None:
        """Removes a method, so that an inherited one takes its place."""
        owner, _, name = difference.name.rpartition(".")
        holder = self._owner(difference.path, owner)
        if name in vars(holder) and any(hasattr(base, name) for base in holder.__mro__[1:]):
            delattr(holder, name)

    def _exchange_fields(self, difference: Difference) -> None:
        """Gives the old class the fields and what `dataclass` made of them; a named tuple, and a
        class with slots, is replaced as a whole.
        """
        path, name = difference.path, difference.name
        module, old = _module(path), self._owner(path, name)
        node = self._classes[path][name]
        namespace = dict(vars(module))
        self._run(path, node, namespace)
        new = namespace[node.name]
        if not hasattr(new, "__dataclass_fields__") or "__slots__" in vars(new):
            _replace_everywhere(node.name, old, new)
            return
        defaults = [each for each in vars(new)["__dataclass_fields__"] if each in vars(new)]
        for each in (*_OF_FIELDS, *defaults):
            if each in vars(new):
                setattr(old, each, vars(new)[each])

    def _add_members(self, functions: Sequence[Difference]) -> None:
        """Adds methods and class constants that these functions name and that classes lack, and what those name in
        turn.

        A method that takes the place of an inherited one is a difference of its own. One that nobody names stays away:
        a property would hide an attribute of the old class.
        """
        asked = {(each.path, each.name) for each in functions}
        constants = {path: self._constants(path) for path in {each.path for each in functions}}
        names = [(name, each.path) for each in functions for name in self._names_of(each)]
        seen = set(names)
        while names:
            name, user = names.pop()
            missing = (*self._members.get(name, ()), *constants[user].get(name, ()))
            for path, full_name in [each for each in missing if each not in asked and self._is_missing(*each)]:
                asked.add((path, full_name))
                with contextlib.suppress(Exception):  # who needs the member will miss it, and does not fit then
                    if self._add_member(path, full_name):
                        more = {(each, user) for each in _names(self._code(path, full_name))} - seen
                        seen |= more
                        names += more

    def _is_missing(self, path: str, full_name: str) -> bool:
        """Whether an imported class lacks this member."""
        owner, _, name = full_name.rpartition(".")
        with contextlib.suppress(ExchangeError):
            return _is_imported(path) and not hasattr(self._owner(path, owner), name)
        return False

    def _add_member(self, path: str, full_name: str) -> bool:
        """Whether a method was added."""
        owner, _, name = full_name.rpartition(".")
        holder, node = self._owner(path, owner), self._defined[path][full_name]
        if is_function(node):
            setattr(holder, name, self._method(path, owner, name))
            return True
        value = self._value(path, node.value, vars(_module(path)))
        if not isinstance(value, dataclasses.Field):
            setattr(holder, name, value)
        return False

    def _constants(self, path: str) -> Mapping[str, Sequence[tuple[str, str]]]:
        """Name → path and full name of the constants of classes in the new text."""
        found = defaultdict[str, list[tuple[str, str]]](list)
        for full_name, node in self._defined[path].items():
            owner, _, name = full_name.rpartition(".")
            if owner and not is_function(node):
                found[name].append((path, full_name))
        return found

    def _names_of(self, difference: Difference) -> list[str]:
        """What a function names in its new form."""
        with contextlib.suppress(ExchangeError, SyntaxError):
            return list(_names(self._code(difference.path, difference.name)))
        return []

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
            result = self._value(path, decorator, vars(module))(result)
        return result

    def _owner(self, path: str, name: str) -> Any:
        holder: Any = _module(path)
        for part in name.split("."):
            holder = getattr(holder, part, None)
        if not isinstance(holder, type):
            raise ExchangeError(f"torch/{path} has no class {name}")
        return holder

    def _value(self, path: str, expression: ast.expr, namespace: dict[str, Any]) -> Any:
        """Of an expression in the new text."""
        self._add_names_of(path, expression, namespace)
        return eval(compile(ast.Expression(expression), path, "eval"), namespace)  # noqa: S307 - torch's own text

    def _add_names_of(self, path: str, node: ast.AST, namespace: dict[str, Any]) -> None:
        """Defines what a decorator, a default or a class names and the module lacks."""
        names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)}
        self._add_definitions(path, namespace, sorted(each for each in names if not hasattr(builtins, each)))

    def _add_names(self, path: str, code: CodeType, namespace: dict[str, Any]) -> None:
        """Defines what the code names and the module lacks, by the statements of the new text."""
        for name in sorted(set(_names(code))):
            if name not in namespace and not hasattr(builtins, name):
                for node in self._bound[path].get(name, ()):
                    namespace[name] = None  # ends a circle of functions that call each other
                    self._add_names(path, compile(ast.Module([node], []), path, "exec"), namespace)
                    self._run(path, node, namespace)

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
                for statement in self._bound[path].get(name, ()):
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
        self._add_names_of(path, node, namespace)
        flags = _annotations_flag(self._trees[path])
        tree = ast.Module([*flags, node], [])
        exec(compile(tree, sys.modules[_name(path)].__file__ or path, "exec", dont_inherit=True), namespace)  # noqa: S102

    def _defaults(self, path: str, name: str, namespace: dict[str, Any]) -> tuple[Any, Any]:
        node = self._defined[path][name]
        arguments = node.args
        values = [self._value(path, each, namespace) for each in arguments.defaults]
        keywords = {
            argument.arg: self._value(path, each, namespace)
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


def _without_new_keywords(node: ast.expr, functions: Mapping[str, Any]) -> ast.expr:
    """Of a call of one of these functions: without the keywords that it does not take."""
    function = functions.get(node.func.id) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else None
    if function is None or not isinstance(node, ast.Call):
        return node
    taken = inspect.signature(function).parameters
    return ast.copy_location(
        ast.Call(node.func, node.args, [each for each in node.keywords if each.arg in taken]), node
    )


def _replace_everywhere(name: str, old: object, new: object) -> None:
    """In all modules of torch that hold this object under this name."""
    for module in [each for key, each in sys.modules.items() if key.startswith("torch.")]:
        if getattr(module, "__dict__", {}).get(name) is old:
            setattr(module, name, new)


def _annotations_flag(tree: ast.Module) -> list[ast.stmt]:
    first = next(iter(without_docstring(tree.body)), None)
    return [first] if isinstance(first, ast.ImportFrom) and first.module == "__future__" else []


def _bound(tree: ast.Module) -> Mapping[str, Sequence[ast.stmt]]:
    """Name → the statements of a module that bind it; of an import the part that does."""
    found = defaultdict[str, list[ast.stmt]](list)
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found[node.name].append(node)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            for each in node.names:
                part = (
                    ast.Import([each])
                    if isinstance(node, ast.Import)
                    else ast.ImportFrom(node.module, [each], node.level)
                )
                found[each.asname or each.name.partition(".")[0]].append(ast.copy_location(part, node))
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for name in {each.id for each in targets if isinstance(each, ast.Name)}:
                found[name].append(node)
    return found


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _names(each)


def _with_inner(code: CodeType) -> Iterator[CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _with_inner(each)


def _name(path: str) -> str:
    parts = path.removesuffix(".py").split("/")
    return ".".join(["torch", *(parts[:-1] if parts[-1] == "__init__" else parts)])


def config_modules() -> list[ModuleType]:
    """The imported modules of torch that hold options of a config: their options are not their attributes."""
    loaded = [module for name, module in sys.modules.items() if name.startswith("torch.")]
    return [each for each in loaded if isinstance(vars(each).get("_config"), dict)]


def path_of(module: str) -> str:
    """The file of a module of torch, below torch/."""
    return f"{module.removeprefix('torch.').replace('.', '/')}.py"


def _is_imported(path: str) -> bool:
    return _name(path) in sys.modules


def _package(path: str) -> str:
    """The package that relative imports in the module are relative to."""
    name = _name(path)
    return name if path.endswith("__init__.py") else name.rpartition(".")[0]


def _module(path: str) -> ModuleType:
    return importlib.import_module(_name(path))
