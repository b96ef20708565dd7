"""Ad-hoc cases: made on the command line from a function, or from a declared case with other options.

mymodule:f              a function of a module, installed or in this folder; `mymodule:object.method` too
path/to/file.py:f       a function of a file
path/to/file.py:Net(64) what a call returns: a module, or another function
lambda x: x.flip(-1)    a function that is written out
"""

from __future__ import annotations

import dataclasses
import difflib
import importlib
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
from conformance.cases.loader import module_of_file
from conformance.cases.lookup import find_case
from conformance.containers import is_module
from conformance.errors import ConformanceError, first_line
from conformance.settings import parse_config_value

_FUNCTION = re.compile(r"(?P<where>[^:\[\]]+):(?P<name>[A-Za-z_][\w.]*)(?P<call>\(.*\))?", re.DOTALL)
_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class AdhocError(ConformanceError, ValueError):
    """A function or an option of the command line that cannot be used. The message says what would be right."""


@dataclass(frozen=True)
class AdhocOptions:
    """The options of the command line for a case.

    `inputs`: the values of --input, NAME=VALUE each. `config`: the values of --config, NAME=VALUE each.
    `grad`: the values of --grad: names of inputs; ("",) for all inputs that can have a gradient.
    """

    inputs: tuple[str, ...] = ()
    grad: tuple[str, ...] = ()
    dynamic: bool = False
    config: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> AdhocOptions:
        """Reads what `dataclasses.asdict` made, also after JSON made lists of tuples."""
        return cls(tuple(data["inputs"]), tuple(data["grad"]), bool(data["dynamic"]), tuple(data["config"]))


@dataclass(frozen=True, eq=False)
class AdhocCase(Case):
    """A case that is declared in no file.

    `spec`: the function or the declared case, as typed. `options`: AdhocOptions as a dict. Another process can make the
    same case from these two.
    """

    spec: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def command(self) -> str:
        """The `show` command for this case, without the target and without what to show."""
        words = [shlex.quote(self.spec)]
        words += [f"--input {shlex.quote(text)}" for text in self.options["inputs"]]
        words += [f"--config {shlex.quote(text)}" for text in self.options["config"]]
        words += ["--grad=" + ",".join(filter(None, self.options["grad"]))] if self.options["grad"] else []
        return " ".join(["python -m conformance show", *words, *(["--dynamic"] if self.options["dynamic"] else [])])


def resolve_case(spec: str, targets: Collection[str], options: AdhocOptions) -> tuple[Case, str]:
    """The case of a function or of a declared case's name, with these options.

    Also returns the target that the name ends in ("" if none). `targets`: all known names. Raises AdhocError,
    InputError, and what lookup.find_case raises.
    """
    config = _config(options.config)
    if is_adhoc_function(spec):
        return _case_of_function(spec, options, config), ""
    case, target = find_case(spec, targets)
    if options.inputs:
        raise AdhocError(
            f"{case.id} declares its inputs; --input is for a function: module:function or path/to/file.py:function"
        )
    if not (options.grad or options.dynamic or config):
        return case, target
    changed = dataclasses.replace(
        case,
        config={**case.config, **config},
        dynamic=options.dynamic or case.dynamic,
        grad=_grad(case.id, options.grad, list(case.recipes), case.make_inputs()) or case.grad,
    )
    return _adhoc_case(changed, spec, options), target


def is_adhoc_function(spec: str) -> bool:
    """Whether a word of the command line is a function (`module:f`, `file.py:f`, `lambda …`) and not a case's name."""
    return bool(_FUNCTION.fullmatch(spec)) or _is_lambda(spec)


def _is_lambda(spec: str) -> bool:
    return spec.lstrip().startswith("lambda")


def _adhoc_case(case: Case, spec: str, options: AdhocOptions) -> AdhocCase:
    values = {each.name: getattr(case, each.name) for each in dataclasses.fields(case)}
    return AdhocCase(**values, spec=spec, options=dataclasses.asdict(options))


def _case_of_function(spec: str, options: AdhocOptions, config: Mapping[str, Any]) -> Case:
    match = None if _is_lambda(spec) else _FUNCTION.fullmatch(spec)
    if match:
        operator, name = match["where"].removesuffix(".py").replace("/", ".").rpartition(".")[2], match["name"]
        fn = _function(spec, match["where"], name, match["call"] or "")
        source = inspect.getsourcefile(inspect.unwrap(fn)) or match["where"] if inspect.isfunction(fn) else spec
    else:
        operator, name, fn, source = "adhoc", "lambda", _lambda(spec), "lambda"
    arguments = _arguments(spec, fn, options.inputs)
    if "torch" in sys.modules and isinstance(fn, sys.modules["torch"].nn.Module):
        arguments = {"parameters": ParsedInput(_parameters(fn), {})} | arguments
        fn = _called_with_parameters(fn)
    case = Case(
        operator=operator,
        name=name,
        labels=(),
        fn=fn,
        file=Path(source),
        arguments={key: value.argument for key, value in arguments.items()},
        choices={key: value.choice for key, value in arguments.items() if isinstance(value.argument, Input)},
        dynamic=options.dynamic,
        config=config,
    )
    grad = _grad(spec, options.grad, list(case.choices), case.build() if options.grad else {})
    return _adhoc_case(dataclasses.replace(case, grad=grad), spec, options)


def _parameters(module: Any) -> dict[str, Any]:
    """The parameters and buffers of a torch.nn.Module. As inputs, they are moved to the device like other inputs."""
    return dict(module.named_parameters()) | dict(module.named_buffers())


def _called_with_parameters(module: Any) -> Callable[..., Any]:
    import torch

    def call(parameters: dict[str, Any], **inputs: Any) -> Any:
        return torch.func.functional_call(module, parameters, (), inputs)

    return call


def _lambda(text: str) -> Callable[..., Any]:
    import math

    import torch

    names = {"torch": torch, "math": math, "F": torch.nn.functional}
    try:
        function = eval(text, names)  # noqa: S307 - the user's own code, typed on the command line
    except SyntaxError as error:
        raise AdhocError(f"{text!r} is not valid Python: {error.msg}") from None
    if not callable(function):
        raise AdhocError(f"{text!r} is not a function; write one as 'lambda x: x.flip(-1)'")
    return function


def _function(spec: str, where: str, path: str, call: str) -> Callable[..., Any]:
    """The function at `path` (`f` or `object.method`) of the module or file `where`. Raises AdhocError.

    `call`: `(64, eps=1e-6)`, what to call it with first; "" to take it as it is.
    """
    module = _file(Path(where)) if where.endswith(".py") else _module(where)
    value: Any = module
    for part in path.split("."):
        if not hasattr(value, part):
            names = [name for name, each in vars(module).items() if callable(each) and not name.startswith("_")]
            similar = difflib.get_close_matches(part, names, 3) or names[:3]
            hint = f"; it has {', '.join(similar)}" if similar else ""
            raise AdhocError(f"{where} has no function {path!r}{hint}")
        value = getattr(value, part)
    if getattr(value, "cases", None):
        raise AdhocError(f"{spec} declares cases; name one of them, such as {where}::{value.cases[0].id}")
    if call or _is_module_class(value):
        value = _called(spec, where, f"{path}{call or '()'}", vars(module), value)
    if isinstance(value, type):
        raise AdhocError(f"{spec} is a class; name a function, or make an object that can be called: '{spec}(…)'")
    if not callable(value):
        raise AdhocError(f"{spec} is of type {type(value).__name__}, which cannot be called; name a function")
    return value


def _is_module_class(value: Any) -> bool:
    return isinstance(value, type) and "torch" in sys.modules and issubclass(value, sys.modules["torch"].nn.Module)


def _called(spec: str, where: str, text: str, names: Mapping[str, Any], called: Any) -> Any:
    """What the call `text` returns, with names of the module `where`. Its random numbers are the same each time."""
    import torch

    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            return eval(text, {"torch": torch, **names})  # noqa: S307 - the user's own code, typed on the command line
    except Exception as error:
        wanted = f"; write '{where}:{_example_call(called)}'" if isinstance(error, TypeError) else ""
        raise AdhocError(f"{spec}: {text} raises {type(error).__name__}: {first_line(error)}{wanted}") from error


def _example_call(called: Any) -> str:
    """`RMSNorm(dim=…)`: a call with the arguments that have no default."""
    try:
        parameters = inspect.signature(called).parameters.values()
    except (TypeError, ValueError):
        return f"{called.__name__}(…)"
    empty = inspect.Parameter.empty
    needed = [each.name for each in parameters if each.default is empty and each.kind in _BY_NAME]
    return f"{called.__name__}({', '.join(f'{name}=…' for name in needed)})"


def _module(name: str) -> Any:
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            raise AdhocError(
                f"there is no module {name!r}, in this folder or installed; for a file, write path/to/file.py:function"
            ) from None
        raise AdhocError(f"{name} cannot be imported: {error}") from error
    except Exception as error:
        raise AdhocError(f"{name} cannot be imported: {type(error).__name__}: {first_line(error)}") from error


def _file(path: Path) -> Any:
    if not path.is_file():
        raise AdhocError(f"there is no file {path}")
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)  # the file may import its neighbours
    module, loader = module_of_file(path.stem, path)
    sys.modules.setdefault(path.stem, module)
    try:
        loader.exec_module(module)
    except Exception as error:
        raise AdhocError(f"{path} cannot be imported: {type(error).__name__}: {first_line(error)}") from error
    return module


def _arguments(spec: str, fn: Callable[..., Any], texts: Sequence[str]) -> dict[str, ParsedInput]:
    """The inputs by name, in the order of the signature. Raises AdhocError for a missing and for an unknown one."""
    inputs: dict[str, ParsedInput] = {}
    for text in texts:
        name, value = parse_input(text)
        if name in inputs:
            raise AdhocError(f"--input {name} is given twice; leave one out")
        inputs[name] = value
    called = getattr(fn, "forward", fn) if not inspect.isroutine(fn) else fn  # forward: of a torch.nn.Module
    try:
        parameters = inspect.signature(called).parameters
    except (TypeError, ValueError):
        raise AdhocError(f"{spec} has no signature that Python can read; wrap it: 'lambda x: …'") from None
    has_keywords = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values())
    known = [name for name, parameter in parameters.items() if parameter.kind in _BY_NAME]
    for name, parameter in parameters.items():
        if parameter.kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL):
            raise AdhocError(f"{spec} takes {name!r} by position only; wrap it: 'lambda {name}: …'")
    for name in inputs:
        if name not in known and not has_keywords:
            has = f"its parameters are {', '.join(known)}" if known else "it has none"
            raise AdhocError(f"{spec} has no parameter {name!r}; {has}")
    missing = [name for name in known if name not in inputs and parameters[name].default is inspect.Parameter.empty]
    if missing:
        example = " ".join(f"--input {name}=1x3x224x224:u8" for name in missing)
        raise AdhocError(f"{spec} needs a value for {', '.join(missing)}: add {example}")
    order = [name for name in known if name in inputs] + [name for name in inputs if name not in known]
    return {name: inputs[name] for name in order}


def _grad(spec: str, texts: Sequence[str], inputs: Sequence[str], values: Mapping[str, Any]) -> tuple[str, ...]:
    """The inputs that --grad names; all of floating or complex dtype if it names none."""
    if not texts:
        return ()
    differentiable = [name for name in inputs if name in values and _is_differentiable(values[name])]
    wanted = [name for text in texts for name in text.split(",") if name]
    for name in wanted:
        if name not in differentiable:
            has = ", ".join(differentiable) or "none"
            raise AdhocError(f"--grad {name}: {spec} has no such input of a floating or complex dtype; it has {has}")
    if not differentiable:
        raise AdhocError(f"--grad: {spec} has no input of a floating or complex dtype")
    return tuple(wanted or differentiable)


def _is_differentiable(value: Any) -> bool:
    dtype = getattr(value, "dtype", None)
    return is_module(value) or (dtype is not None and (dtype.is_floating_point or dtype.is_complex))


def _config(texts: Sequence[str]) -> dict[str, Any]:
    """Compiler option → value, from the values of --config."""
    if not texts:
        return {}
    from conformance.capture.compiler_options import problem_of

    options: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise AdhocError(f"--config {text!r}: write NAME=VALUE, such as triton.persistent_reductions=False")
        options[name] = parse_config_value(value)
        if problem := problem_of(name, options[name]):
            raise AdhocError(f"--config {text!r}: {problem}")
    return options
