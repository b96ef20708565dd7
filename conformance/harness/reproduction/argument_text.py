"""The expression that gives a constant argument of a case again: a number, a dtype, a function, a lambda."""

from __future__ import annotations

import ast
import functools
import importlib
import math
import sys
import types
from collections.abc import Iterator
from typing import Any

from conformance.harness.reproduction.module_text import AVAILABLE, ModuleText, NotSelfContainedError

#: Where torch's functions are that do not say where they are.
_PLACES = (
    "torch",
    "torch.nn.functional",
    "torch.special",
    "torch.fft",
    "torch.linalg",
    "torch.Tensor",
    "operator",
    "math",
    "builtins",
)


class ArgumentText:
    """Writes expressions. `module`: the file of cases, which gets what the expressions need. `names`: its globals."""

    def __init__(self, module: ModuleText, names: dict[str, Any]) -> None:
        self._module, self._names = module, names
        self.imports: dict[str, None] = {}

    def expression(self, value: Any) -> str:
        """An expression for the value. Raises NotSelfContainedError."""
        import torch

        if value is None or value is ... or type(value) in (bool, int, str, bytes, complex):
            return repr(value)
        if type(value) is float:
            return repr(value) if math.isfinite(value) else f'float("{value}")'
        if isinstance(value, (torch.dtype, torch.layout, torch.memory_format)):
            return str(value)
        if type(value) in (tuple, list, dict, set, slice, range, functools.partial):
            return self._container(value)
        for written in (self._in_torch, self._in_file, self._function, self._in_container):
            if (text := written(value)) is not None:
                return text
        raise NotSelfContainedError(f"an argument is a {type(value).__name__} that cannot be written as source")

    def _container(self, value: Any) -> str:
        if isinstance(value, dict):
            items = [f"{self.expression(key)}: {self.expression(item)}" for key, item in value.items()]
            return f"{{{', '.join(items)}}}"
        if isinstance(value, functools.partial):
            self.imports["import functools"] = None
            named = [f"{name}={self.expression(item)}" for name, item in value.keywords.items()]
            return f"functools.partial({', '.join([*map(self.expression, (value.func, *value.args)), *named])})"
        if isinstance(value, (slice, range)):
            parts = ", ".join(self.expression(each) for each in (value.start, value.stop, value.step))
            return f"{type(value).__name__}({parts})"
        items = [self.expression(item) for item in value]
        if isinstance(value, tuple):
            return f"({', '.join(items)}{',' * (len(items) == 1)})"
        return f"{type(value).__name__}([{', '.join(items)}])" if isinstance(value, set) else f"[{', '.join(items)}]"

    def _in_torch(self, value: Any) -> str | None:
        """The name of a function or class of torch or Python."""
        import torch

        # The classes of operators have no public name.
        if isinstance(value, (type(torch.ops.aten.add), type(torch.ops.aten.add.Tensor))):
            return f"torch.ops.{value}" if str(value).startswith(("aten.", "prims.")) else None
        name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
        if not isinstance(name, str):
            return None
        named = getattr(value, "__module__", None)
        for place in dict.fromkeys((named, *_PLACES)):
            if not isinstance(place, str) or not _is_available(place):
                continue
            for each in (name, name.rpartition(".")[2]):
                if _resolve(place, each) is value:
                    if place == "builtins":
                        return each
                    if place != "torch.Tensor":
                        self.imports[f"import {place}"] = None
                    return f"{place}.{each}"
        return None

    def _in_file(self, value: Any) -> str | None:
        """The name of a global of the file of cases."""
        if not isinstance(value, (types.FunctionType, type)) and type(value).__name__ != "JITFunction":
            return None
        name = getattr(value, "__name__", "")
        if self._names.get(name) is not value:
            return None
        self._module.need(name)
        return name

    def _function(self, value: Any) -> str | None:
        """The source of a lambda, with the values of its defaults and of the variables around it."""
        if not isinstance(value, types.FunctionType) or value.__globals__ is not self._names:
            return None
        for node in ast.walk(self._module.tree):
            if isinstance(node, ast.Lambda) and node.lineno == value.__code__.co_firstlineno:
                text = ast.unparse(node)
                made = _code_of(text, value.__code__.co_freevars, self._module.imports())
                if _signature(made) == _signature(value.__code__):
                    return self._lambda(node, value)
        return None

    def _lambda(self, node: ast.Lambda, value: types.FunctionType) -> str:
        written: list[ast.expr] = [_parsed(self.expression(each)) for each in value.__defaults__ or ()]
        named = value.__kwdefaults__ or {}
        by_name = [
            _parsed(self.expression(named[each.arg])) if each.arg in named else None for each in node.args.kwonlyargs
        ]
        arguments = ast.arguments(
            node.args.posonlyargs,
            node.args.args,
            node.args.vararg,
            node.args.kwonlyargs,
            by_name,
            node.args.kwarg,
            written,
        )
        text = ast.unparse(ast.Lambda(arguments, node.body))
        around = value.__code__.co_freevars
        if around:
            cells = [self.expression(cell.cell_contents) for cell in value.__closure__ or ()]
            text = f"(lambda {', '.join(around)}: {text})({', '.join(cells)})"
        self._module.need_names_of(text)
        return text

    def _in_container(self, value: Any) -> str | None:
        """`NAME[key]` for an element of a global list, tuple or dict of the file."""
        for name, container in self._names.items():
            for key, item in _items(container):
                if item is value and isinstance(key, (str, int)):
                    self._module.need(name)
                    return f"{name}[{key!r}]"
        return None


def _items(container: Any) -> Iterator[tuple[Any, Any]]:
    if type(container) is dict:
        yield from container.items()
    elif type(container) in (list, tuple):
        yield from enumerate(container)


def _is_available(module: str) -> bool:
    top = module.partition(".")[0]
    return top in AVAILABLE or top in sys.stdlib_module_names


def _resolve(place: str, name: str) -> Any:
    try:
        found: Any = torch_tensor() if place == "torch.Tensor" else importlib.import_module(place)
    except ImportError:
        return None
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def torch_tensor() -> type:
    """The class torch.Tensor: a module cannot be imported by this name."""
    import torch

    return torch.Tensor


def _parsed(expression: str) -> ast.expr:
    return ast.parse(expression, mode="eval").body


def _code_of(text: str, around: tuple[str, ...], imports: str) -> types.CodeType | None:
    """The code of a lambda inside a function whose parameters are the variables `around` it.

    `imports`: those of its file. Python from 3.11 calls a function of an imported module with another instruction.
    """
    made = compile(f"{imports}\ndef make({', '.join(around)}):\n    return ({text})", "text", "exec")
    [make] = [each for each in made.co_consts if isinstance(each, types.CodeType)]
    return next((each for each in make.co_consts if isinstance(each, types.CodeType)), None)


def _signature(code: types.CodeType | None) -> Any:
    """All of a code object that decides what it does; not its lines and file."""
    if code is None:
        return None
    constants = [_signature(each) if isinstance(each, types.CodeType) else repr(each) for each in code.co_consts]
    own = [each for each in constants if not (isinstance(each, str) and "<locals>" in each)]  # qualified names
    return code.co_code, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars, own
