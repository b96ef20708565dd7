"""Runs a case with another backend of torch.compile, with torch.jit or with torch.export. Nothing is captured."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import functools
import importlib
import inspect
import itertools
import linecache
import textwrap
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from conformance.capture.compiler_options import options_of_dynamo
from conformance.cases.case import Case
from conformance.cases.inputs import Input
from conformance.cases.tolerance_policy import Policy
from conformance.containers import Leaf, copy_to, leaves_of, module_with
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

    Private: torch.compiler.reset(), since several cases share a code object, and its config.
    """
    import torch

    torch.compiler.reset()
    try:
        if via == "compile":
            with options_of_dynamo(case.config):  # other backends have no Inductor options
                yield torch.compile(case.fn, backend=backend_named(backend), dynamic=case.dynamic)
        else:
            make = {"jit_trace": _trace, "jit_script": _script, "export": exported_function}[via]
            # TorchScript reads the function's source and does not run it
            may_raise = via != "jit_script" and bool(Policy.for_case(case, target, device).raises)
            yield _make_or_defer_error(make, case, device, may_raise=may_raise)
    finally:
        torch.compiler.reset()


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
        is_named = type(value).__module__ == "torch.return_types" or hasattr(value, "_fields")
        kind = tuple if is_named else type(value)
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


class _Example:
    """A case for compilers that take tensors and one module: its inputs in order, and its modules as parts of one.

    `inputs`: the tensors of the first call, on the device. `modules`: path → module of that call.
    """

    def __init__(self, case: Case, device: str) -> None:
        import torch

        self._case, self._paths = case, list(case.inputs)
        made = copy_to(case.make_inputs(), torch.device(device))
        self.inputs = tuple(made[path] for path in self._paths)
        self.modules = {path: each for path, each in made.items() if path not in case.inputs}

    def call(self, tensors: Sequence[Any], modules: Mapping[str, Any]) -> Any:
        """Calls the case's function."""
        return self._case.fn(**self._case.assemble({**dict(zip(self._paths, tensors, strict=True)), **modules}))

    def parts_of(self, arguments: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The tensors and the modules of a call, as `call` takes them."""
        found = (leaves_of(argument, name, into_modules=False) for name, argument in arguments.items())
        leaves = dict(itertools.chain.from_iterable(found))
        return tuple(leaves[path] for path in self._paths), {path: leaves[path] for path in self.modules}


def _state(modules: Mapping[str, Any], *, tied_once: bool) -> dict[tuple[str, str], Any]:
    """(path of a module, name) → parameter or buffer. `tied_once`: only the first name of each tensor."""
    return {
        (path, name): tensor
        for path, each in modules.items()
        for name, tensor in (
            *each.named_parameters(remove_duplicate=tied_once),
            *each.named_buffers(remove_duplicate=tied_once),
        )
    }


def _trace(case: Case, device: str) -> Callable[..., Any]:
    """torch.jit.trace keeps the tensors of a module as constants, so here they are inputs too."""
    import torch

    example = _Example(case, device)
    state = _state(example.modules, tied_once=True)
    count = len(example.inputs)

    def fn(*tensors: Any) -> Any:
        values = dict(zip(state, tensors[count:], strict=True))
        of_module = {path: {name: values[at, name] for at, name in state if at == path} for path in example.modules}
        modules = {path: module_with(each, of_module[path]) for path, each in example.modules.items()}
        return example.call(tensors[:count], modules)

    traced = torch.jit.trace(fn, (*example.inputs, *state.values()), check_trace=False, strict=False)

    def call(**arguments: Any) -> Any:
        tensors, modules = example.parts_of(arguments)
        return traced(*tensors, *_state(modules, tied_once=True).values())

    return call


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
        if isinstance(value, Leaf) and not isinstance(value, Input):
            raise TypeError(f"{case.id}: TorchScript needs the type of {argument.arg!r}, which is a group or a module")
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


def exported_function(case: Case, device: str, *, compiled: bool = False) -> Callable[..., Any]:
    """The program that torch.export makes of the case. Call it with the case's arguments. Raises what exporting raises.

    torch.export takes a module. With dynamic shapes, every size above 1 of its inputs is dynamic. `compiled`:
    torch.compile compiles the program at the first call.
    """
    import torch

    example = _Example(case, device)
    parts = {path: f"part{index}" for index, path in enumerate(example.modules)}

    class Exported(torch.nn.Module):
        def forward(self, *tensors: Any) -> Any:
            return example.call(tensors, {path: getattr(self, name) for path, name in parts.items()})

    module = Exported()
    for path, name in parts.items():
        module.add_module(name, example.modules[path])
    auto = torch.export.Dim.AUTO
    sizes = tuple({d: auto for d, size in enumerate(t.shape) if size > 1} for t in example.inputs)
    shapes = (sizes,) if case.dynamic else None
    exported = torch.export.export(module, example.inputs, dynamic_shapes=shapes).module()
    if compiled:
        exported.compile(dynamic=case.dynamic)
    known = {name for name, _ in (*exported.named_parameters(remove_duplicate=False), *exported.named_buffers())}

    def call(**arguments: Any) -> Any:
        tensors, modules = example.parts_of(arguments)
        state = {f"{parts[path]}.{name}": each for (path, name), each in _state(modules, tied_once=False).items()}
        state = {name: tensor for name, tensor in state.items() if name in known}
        return torch.func.functional_call(exported, state, tensors) if state else exported(*tensors)

    return call
