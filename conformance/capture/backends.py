"""Runs a case with another backend of torch.compile, with torch.jit or with torch.export. Nothing is captured."""

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
    """A backend that does not exist or cannot be called. The message names the known backends, or the problem."""


def backend_named(name: str) -> Any:
    """The `backend` argument of torch.compile: a known backend's name, or the function for `module:function`.

    Raises BackendError.
    """
    import torch

    known = sorted(torch.compiler.list_backends(exclude_tags=()))
    if name in known:
        return name
    module, _, path = name.partition(":")
    if not path:
        raise BackendError(
            f"unknown backend {name!r}; torch {torch.__version__} knows {', '.join(known)}. "
            "Name your own backend as module:function"
        )
    try:
        backend = functools.reduce(getattr, path.split("."), importlib.import_module(module))
    except (ImportError, AttributeError) as error:
        raise BackendError(
            f"backend {name!r}: {error}. Write module:function, with a module that can be imported"
        ) from error
    if not callable(backend):
        raise BackendError(
            f"backend {name!r} is {backend!r}; a backend is a function of a graph and its example inputs"
        )
    return backend


class UnsupportedCaseError(ConformanceError):
    """torch.jit or torch.export cannot run the case. The message is theirs."""


@contextlib.contextmanager
def function_via(case: Case, via: str, backend: str, device: str, target: str = "") -> Iterator[Callable[..., Any]]:
    """The case's function, made by `via`: compile, jit_trace, jit_script or export. Call it with the case's arguments.

    Nothing in torch is replaced. `backend`: only for `compile`. Raises UnsupportedCaseError where torch.jit or
    torch.export cannot make the function. They run the case to make it: where the case says that eager raises on
    `target`, the returned function raises that error.

    Private: torch._dynamo.reset(), since several cases share a code object, and its config. Checked with 2.11 to 2.15.
    """
    import torch
    import torch._dynamo

    torch._dynamo.reset()
    try:
        if via == "compile":
            _, dynamo_options = split_options(case.config)  # other backends have no Inductor options
            with torch._dynamo.config.patch(dynamo_options):
                yield torch.compile(case.fn, backend=backend_named(backend), dynamic=case.dynamic)
        else:
            make = {"jit_trace": _trace, "jit_script": _script, "export": _export}[via]
            # TorchScript reads the function's source and does not run it
            may_raise = via != "jit_script" and bool(Policy.for_case(case, target, device).raises)
            yield _make_or_defer_error(make, case, device, may_raise=may_raise)
    finally:
        torch._dynamo.reset()


def with_plain_tuples(case: Case, via: str) -> Case:
    """The case, with plain tuples as results where `via` is TorchScript: it has no `torch.return_types`."""
    if not via.startswith("jit"):
        return case

    @functools.wraps(case.fn)
    def fn(**arguments: Any) -> Any:
        return _plain_tuples(case.fn(**arguments))

    return dataclasses.replace(case, fn=fn)


def _plain_tuples(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        kind = tuple if type(value).__module__ == "torch.return_types" else type(value)
        return kind(_plain_tuples(each) for each in value)
    return value


def _make_or_defer_error(
    make: Callable[[Case, str], Callable[..., Any]], case: Case, device: str, *, may_raise: bool
) -> Callable[..., Any]:
    try:
        return make(case, device)
    except Exception as error:
        if not may_raise:
            raise UnsupportedCaseError(f"{type(error).__name__}: {first_line(error)}") from error
        raised = error

    def fn(**_: Any) -> Any:
        raise raised

    return fn


def _with_fixed_constants(case: Case) -> tuple[list[str], Callable[..., Any]]:
    """The names of the inputs, and the case's function of the inputs only."""
    names = [name for name, argument in case.arguments.items() if isinstance(argument, Input)]
    constants = {name: value for name, value in case.arguments.items() if name not in names}

    def fn(*tensors: Any) -> Any:
        return case.fn(**dict(zip(names, tensors, strict=True)), **constants)

    return names, fn


def _example_inputs(case: Case, names: list[str], device: str) -> tuple[Any, ...]:
    import torch

    arguments = copy_to(case.build(), torch.device(device))
    return tuple(arguments[name] for name in names)


def _with_named_arguments(names: list[str], fn: Callable[..., Any]) -> Callable[..., Any]:
    return lambda **arguments: fn(*(arguments[name] for name in names))


def _trace(case: Case, device: str) -> Callable[..., Any]:
    import torch

    names, fn = _with_fixed_constants(case)
    traced = torch.jit.trace(fn, _example_inputs(case, names, device), check_trace=False, strict=False)
    return _with_named_arguments(names, traced)


def _script(case: Case, _device: str) -> Callable[..., Any]:
    """TorchScript takes an argument without annotation for a tensor, so the constants get annotations here."""
    import torch

    tree = ast.parse(textwrap.dedent(inspect.getsource(case.fn)))
    function = tree.body[0]
    if not isinstance(function, ast.FunctionDef):
        raise TypeError(f"{case.id}: TorchScript needs a function that is defined with `def`")
    function.decorator_list = []
    for argument in function.args.args:
        value = case.arguments[argument.arg]
        if not isinstance(value, Input):
            argument.annotation = ast.parse(_torchscript_type(value), mode="eval").body
    text = ast.unparse(tree)
    name = f"<{case.id} for TorchScript>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)  # torch.jit reads it here
    names = dict(case.fn.__globals__) | {"List": typing.List, "Optional": typing.Optional}  # noqa: UP006
    exec(compile(text, name, "exec"), names)  # noqa: S102 - the case's own source
    return torch.jit.script(names[function.name])


def _torchscript_type(value: Any) -> str:
    if isinstance(value, (list, tuple)) and value:
        return f"List[{_torchscript_type(value[0])}]"
    return "Optional[int]" if value is None else type(value).__name__


def _export(case: Case, device: str) -> Callable[..., Any]:
    """torch.export takes a module. With dynamic shapes, every size above 1 of its inputs is dynamic."""
    import torch

    names, fn = _with_fixed_constants(case)

    class Exported(torch.nn.Module):
        def forward(self, *tensors: Any) -> Any:
            return fn(*tensors)

    examples = _example_inputs(case, names, device)
    auto = torch.export.Dim.AUTO
    sizes = tuple({d: auto for d, size in enumerate(t.shape) if size > 1} for t in examples) if case.dynamic else None
    program = torch.export.export(Exported(), examples, dynamic_shapes=None if sizes is None else (sizes,))
    return _with_named_arguments(names, program.module())
