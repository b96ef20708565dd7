"""Ways to run a case other than Inductor's capture: another backend of torch.compile, torch.jit, torch.export."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import functools
import importlib
import inspect
import linecache
import textwrap
import typing
from collections.abc import Callable, Iterator
from typing import Any

from conformance.cases.case import Case
from conformance.cases.compiler_options import split_options
from conformance.cases.inputs import Input, copy_to
from conformance.cases.numerics_policy import Policy
from conformance.errors import ConformanceError, first_line


class BackendError(ConformanceError, ValueError):
    """A backend or a way that there is not; the message names those that there are."""


def backend_named(name: str) -> Any:
    """What torch.compile takes as backend: the name itself, or the function of `module:function`.

    Raises BackendError naming the known ones.
    """
    import torch

    known = sorted(torch.compiler.list_backends(exclude_tags=()))
    if name in known:
        return name
    module, _, path = name.partition(":")
    if not path:
        raise BackendError(
            f"unknown backend {name!r}; torch {torch.__version__} knows {', '.join(known)}; "
            "one of your own is module:function"
        )
    try:
        found = functools.reduce(getattr, path.split("."), importlib.import_module(module))
    except (ImportError, AttributeError) as error:
        raise BackendError(
            f"backend {name!r}: {error}; it is module:function, and the module can be imported"
        ) from error
    if not callable(found):
        raise BackendError(f"backend {name!r} is {found!r}; a backend is a function of a graph and its example inputs")
    return found


class UnsupportedCaseError(ConformanceError):
    """A way that cannot run the case; the message says what torch.jit or torch.export said of it."""


@contextlib.contextmanager
def function_via(case: Case, via: str, backend: str, device: str, target: str = "") -> Iterator[Callable[..., Any]]:
    """The case's function as that way runs it, to be called with the case's arguments by name.

    Nothing of torch is replaced and nothing captured. `backend` is for `compile` alone. Raises UnsupportedCaseError where there
    is no such function. One that is called while it is made, and raises, where the case says that eager raises on
    `target`, raises the same when it is called.
    """
    import torch
    import torch._dynamo  # reset(): several cases share a code object; config: its own settings

    torch._dynamo.reset()
    try:
        if via == "compile":
            _, for_dynamo = split_options(case.config)  # Inductor's options are Inductor's
            with torch._dynamo.config.patch(for_dynamo):
                yield torch.compile(case.fn, backend=backend_named(backend), dynamic=case.dynamic)
        else:
            raises = via != "jit_script" and Policy.for_case(case, target, device).raises  # a script is only read
            yield _made({"jit_trace": _traced, "jit_script": _scripted, "export": _exported}[via], case, device, raises)
    finally:
        torch._dynamo.reset()


def with_plain_tuples(case: Case, via: str) -> Case:
    """The case as that way can answer it: TorchScript has tuples, and no `torch.return_types`."""
    if not via.startswith("jit"):
        return case

    @functools.wraps(case.fn)
    def fn(**arguments: Any) -> Any:
        return _plain(case.fn(**arguments))

    return dataclasses.replace(case, fn=fn)


def _plain(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        kind = tuple if type(value).__module__ == "torch.return_types" else type(value)
        return kind(_plain(each) for each in value)
    return value


def _made(make: Callable[..., Callable[..., Any]], case: Case, device: str, raises: Any) -> Callable[..., Any]:
    try:
        return make(case, device)
    except Exception as error:
        if not raises:
            raise UnsupportedCaseError(f"{type(error).__name__}: {first_line(error)}") from error
        raised = error

    def fn(**_: Any) -> Any:
        raise raised

    return fn


def _of_tensors(case: Case) -> tuple[list[str], Callable[..., Any]]:
    """The names of the inputs, and the function of them alone: constants are fixed."""
    names = [name for name, argument in case.arguments.items() if isinstance(argument, Input)]
    constants = {name: value for name, value in case.arguments.items() if name not in names}

    def fn(*tensors: Any) -> Any:
        return case.fn(**dict(zip(names, tensors, strict=True)), **constants)

    return names, fn


def _examples(case: Case, names: list[str], device: str) -> tuple[Any, ...]:
    import torch

    built = copy_to(case.build(), torch.device(device))
    return tuple(built[name] for name in names)


def _by_name(names: list[str], fn: Callable[..., Any]) -> Callable[..., Any]:
    return lambda **arguments: fn(*(arguments[name] for name in names))


def _traced(case: Case, device: str) -> Callable[..., Any]:
    import torch

    names, fn = _of_tensors(case)
    return _by_name(names, torch.jit.trace(fn, _examples(case, names, device), check_trace=False, strict=False))


def _scripted(case: Case, _device: str) -> Callable[..., Any]:
    """TorchScript reads the source, and takes for a tensor what has no annotation there: constants are given theirs."""
    import torch

    tree = ast.parse(textwrap.dedent(inspect.getsource(case.fn)))
    function = tree.body[0]
    if not isinstance(function, ast.FunctionDef):
        raise TypeError(f"{case.id}: TorchScript is made from the source of a function, and this one has none")
    function.decorator_list = []
    for argument in function.args.args:
        value = case.arguments[argument.arg]
        if not isinstance(value, Input):
            argument.annotation = ast.parse(_type_of(value), mode="eval").body
    text = ast.unparse(tree)
    name = f"<{case.id} for TorchScript>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)  # where torch.jit looks for it
    names = dict(case.fn.__globals__) | {"List": typing.List, "Optional": typing.Optional}  # noqa: UP006
    exec(compile(text, name, "exec"), names)  # noqa: S102 - the case's own source
    return torch.jit.script(names[function.name])


def _type_of(value: Any) -> str:
    """As TorchScript writes it."""
    if isinstance(value, (list, tuple)) and value:
        return f"List[{_type_of(value[0])}]"
    return "Optional[int]" if value is None else type(value).__name__


def _exported(case: Case, device: str) -> Callable[..., Any]:
    """torch.export takes a module; under dynamic shapes every size above 1 of its inputs is one."""
    import torch

    names, fn = _of_tensors(case)

    class Exported(torch.nn.Module):
        def forward(self, *tensors: Any) -> Any:
            return fn(*tensors)

    examples = _examples(case, names, device)
    auto = torch.export.Dim.AUTO
    sizes = tuple({d: auto for d, size in enumerate(t.shape) if size > 1} for t in examples) if case.dynamic else None
    program = torch.export.export(Exported(), examples, dynamic_shapes=None if sizes is None else (sizes,))
    return _by_name(names, program.module())
