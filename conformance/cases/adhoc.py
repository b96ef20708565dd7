"""A case made on the command line: a function of one's own with inputs, or a declared case with other options.

mymodule:f              a function of a module that can be imported from here; `mymodule:Class.method` too
path/to/file.py:f       of a file
lambda x: x.flip(-1)    itself
"""

from __future__ import annotations

import ast
import dataclasses
import difflib
import importlib
import importlib.util
import inspect
import re
import shlex
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conformance.cases.case import Case
from conformance.cases.input_syntax import ParsedInput, parse_input
from conformance.cases.inputs import Input
from conformance.cases.lookup import find_case
from conformance.errors import ConformanceError, first_line

_FUNCTION = re.compile(r"(?P<where>[^:\[\]]+):(?P<name>[A-Za-z_][\w.]*)")


class AdhocError(ConformanceError, ValueError):
    """A function or an option that cannot be taken; the message says what would be right."""


@dataclass(frozen=True)
class AdhocOptions:
    """What was typed. `inputs`, `config`: NAME=VALUE each; `grad`: names, or ("",) for all that can."""

    inputs: tuple[str, ...] = ()
    grad: tuple[str, ...] = ()
    dynamic: bool = False
    config: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class AdhocCase(Case):
    """A case that is declared nowhere. `word`, `asked`: what it is made from: another process can make it too."""

    spec: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def command(self) -> str:
        """What to type to see it again, but for the target and the parts."""
        words = [shlex.quote(self.spec)]
        words += [f"--input {shlex.quote(text)}" for text in self.options["inputs"]]
        words += [f"--config {shlex.quote(text)}" for text in self.options["config"]]
        words += ["--grad=" + ",".join(filter(None, self.options["grad"]))] if self.options["grad"] else []
        return " ".join(["python -m conformance show", *words, *(["--dynamic"] if self.options["dynamic"] else [])])


def resolve_case(word: str, targets: Collection[str], asked: AdhocOptions) -> tuple[Case, str]:
    """The case that a word of the command line names, with what was asked for, and the target that its name ends in.

    Raises AdhocError and InputError, and what `finding.named` raises.
    """
    options = _config(asked.config)
    if is_adhoc_function(word):
        return _own(word, asked, options), ""
    case, target = find_case(word, targets)
    if asked.inputs:
        raise AdhocError(
            f"{case.id} brings its inputs; --input is for a function: module:function or path/to/file.py:function"
        )
    if not (asked.grad or asked.dynamic or options):
        return case, target
    changed = {field.name: getattr(case, field.name) for field in dataclasses.fields(case)}
    changed["config"] = {**case.config, **options}
    changed["dynamic"] = asked.dynamic or case.dynamic
    inputs = [name for name, value in case.arguments.items() if isinstance(value, Input)]
    changed["grad"] = _grad(case.id, asked.grad, inputs, case.build()) or case.grad
    return AdhocCase(**changed, spec=word, options=dataclasses.asdict(asked)), target


def is_adhoc_function(word: str) -> bool:
    """Whether a word names a function rather than a case."""
    return bool(_FUNCTION.fullmatch(word)) or word.lstrip().startswith("lambda")


def _own(word: str, asked: AdhocOptions, config: Mapping[str, Any]) -> Case:
    if word.lstrip().startswith("lambda"):
        operator, name, fn, file = "own", "lambda", _lambda(word), Path("lambda")
    else:
        match = _FUNCTION.fullmatch(word)
        operator, name = match["where"].removesuffix(".py").replace("/", ".").rpartition(".")[2], match["name"]
        fn = _function(word, match["where"], match["name"])
        file = (
            Path(inspect.getsourcefile(inspect.unwrap(fn)) or match["where"]) if inspect.isfunction(fn) else Path(word)
        )
    arguments = _arguments(word, fn, asked.inputs)
    if "torch" in sys.modules and isinstance(fn, sys.modules["torch"].nn.Module):
        arguments = {"parameters": ParsedInput(_parameters(fn), {})} | arguments
        fn = _called_with_parameters(fn)
    case = Case(
        operator=operator,
        name=name,
        labels=(),
        fn=fn,
        file=file,
        arguments={key: value.argument for key, value in arguments.items()},
        choices={key: value.choice for key, value in arguments.items() if isinstance(value.argument, Input)},
        dynamic=asked.dynamic,
        config=config,
    )
    values = {field.name: getattr(case, field.name) for field in dataclasses.fields(case)}
    values["grad"] = _grad(word, asked.grad, list(case.choices), case.build() if asked.grad else {})
    return AdhocCase(**values, spec=word, options=dataclasses.asdict(asked))


def _parameters(module: Any) -> dict[str, Any]:
    """Of a torch.nn.Module, and its buffers: as inputs, they are on the device that it is compiled for."""
    return dict(module.named_parameters()) | dict(module.named_buffers())


def _called_with_parameters(module: Any) -> Callable[..., Any]:
    import torch

    def call(parameters: dict[str, Any], **inputs: Any) -> Any:
        return torch.func.functional_call(module, parameters, (), inputs)

    return call


def _lambda(text: str) -> Callable[..., Any]:
    import math

    import torch

    try:
        made = eval(text, {"torch": torch, "math": math, "F": torch.nn.functional})  # noqa: S307 - the user's own code
    except SyntaxError as error:
        raise AdhocError(f"{text!r} cannot be read: {error.msg}") from None
    if not callable(made):
        raise AdhocError(f"{text!r} is no function")
    return made


def _function(word: str, where: str, path: str) -> Callable[..., Any]:
    """Raises AdhocError, one sentence for each way in which there is no such function."""
    module = _file(Path(where)) if where.endswith(".py") else _module(where)
    value: Any = module
    for part in path.split("."):
        if not hasattr(value, part):
            names = [name for name, each in vars(module).items() if callable(each) and not name.startswith("_")]
            near = difflib.get_close_matches(part, names, 3) or names[:3]
            also = f"; it has {', '.join(near)}" if near else ""
            raise AdhocError(f"{where} has no function {path!r}{also}")
        value = getattr(value, part)
    if getattr(value, "cases", None):
        first = value.cases[0].id
        raise AdhocError(f"{word} declares cases; name one of them, such as {where}::{first}")
    if isinstance(value, type):
        raise AdhocError(f"{word} is a class; name a function, or an object that can be called")
    if not callable(value):
        raise AdhocError(f"{word} is of type {type(value).__name__}, and cannot be called")
    return value


def _module(name: str) -> Any:
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            raise AdhocError(
                f"there is no module {name!r} here or installed; of a file: path/to/file.py:function"
            ) from None
        raise AdhocError(f"{name} cannot be imported: {error}") from error
    except Exception as error:
        raise AdhocError(f"{name} cannot be imported: {type(error).__name__}: {first_line(error)}") from error


def _file(path: Path) -> Any:
    if not path.is_file():
        raise AdhocError(f"there is no file {path}")
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)  # it may import what is beside it
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise AdhocError(f"{path} cannot be imported: {type(error).__name__}: {first_line(error)}") from error
    return module


def _arguments(word: str, fn: Callable[..., Any], texts: Sequence[str]) -> dict[str, ParsedInput]:
    """The arguments in the order of the signature. Raises AdhocError for one that is missing or that there is not."""
    found: dict[str, ParsedInput] = {}
    for text in texts:
        name, value = parse_input(text)
        if name in found:
            raise AdhocError(f"--input {name} is given twice")
        found[name] = value
    called = getattr(fn, "forward", fn) if not inspect.isroutine(fn) else fn  # a torch.nn.Module
    try:
        parameters = inspect.signature(called).parameters
    except (TypeError, ValueError):
        raise AdhocError(f"{word} says nothing of its parameters; wrap it: 'lambda x: …'") from None
    kinds = {name: parameter.kind for name, parameter in parameters.items()}
    open_ended = any(kind is inspect.Parameter.VAR_KEYWORD for kind in kinds.values())
    named_ones = [name for name, kind in kinds.items() if kind in _BY_NAME]
    for name, parameter in parameters.items():
        if parameter.kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL):
            raise AdhocError(f"{word} takes {name!r} by position only; wrap it: 'lambda {name}: …'")
    for name in found:
        if name not in named_ones and not open_ended:
            has = f"its parameters are {', '.join(named_ones)}" if named_ones else "it has none"
            raise AdhocError(f"{word} has no parameter {name!r}; {has}")
    for name, parameter in parameters.items():
        if name not in found and parameter.default is parameter.empty and parameter.kind in _BY_NAME:
            missing = [n for n in named_ones if n not in found and parameters[n].default is parameter.empty]
            example = " ".join(f"--input {n}=1x3x224x224:u8" for n in missing)
            raise AdhocError(f"nothing says what {word} is called with: {example}")
    order = [name for name in named_ones if name in found] + [name for name in found if name not in named_ones]
    return {name: found[name] for name in order}


_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def _grad(word: str, asked: Sequence[str], inputs: Sequence[str], values: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of inputs; all of floating or complex dtype where none is named."""
    differentiable = [name for name in inputs if name in values and _is_differentiable(values[name])]
    if not asked:
        return ()
    wanted = [name for each in asked for name in each.split(",") if name]
    for name in wanted:
        if name not in differentiable:
            has = ", ".join(differentiable) or "none"
            raise AdhocError(f"--grad {name}: of the inputs of {word}, gradients are there for {has}")
    if not differentiable:
        raise AdhocError(f"--grad: no input of {word} is of a floating dtype")
    return tuple(wanted or differentiable)


def _is_differentiable(value: Any) -> bool:
    dtype = getattr(value, "dtype", None)
    return dtype is not None and (dtype.is_floating_point or dtype.is_complex)


def _config(texts: Sequence[str]) -> dict[str, Any]:
    """Inductor's options, and Dynamo's with `dynamo.` before them, from NAME=VALUE each."""
    if not texts:
        return {}
    from conformance.cases.compiler_options import nearest

    found: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise AdhocError(f"--config {text!r}: an option is NAME=VALUE, such as triton.persistent_reductions=False")
        if (near := nearest(name)) is not None:
            also = f"; nearest: {', '.join(near)}" if near else ""
            raise AdhocError(f"--config {text!r}: torch has no option {name!r}{also}")
        try:
            found[name] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            found[name] = value  # text needs no quotes here
    return found
