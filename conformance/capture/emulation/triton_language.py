"""Switches Triton's language to the interpreter during a launch.

During a launch, builtins compute with numpy, and Python can call @triton.jit functions. If TRITON_INTERPRET is set when
Triton is imported, Triton always interprets and never generates code. So this module replaces the same parts of Triton
around each launch, and restores them afterwards (Triton 3.6 to 3.9).
"""

from __future__ import annotations

import ast
import contextlib
import functools
import inspect
import sys
import textwrap
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import triton.language as tl
from torch._inductor.runtime import triton_helpers
from triton.language.semantic import TritonSemantic
from triton.runtime import interpreter
from triton.runtime.interpreter import TensorHandle
from triton.runtime.jit import JITFunction

from conformance.capture.emulation import known_shapes, libdevice, reductions
from conformance.capture.emulation.errors import DivergentProgramsError, KernelFaultError
from conformance.capture.emulation.memory import Memory

_ABSENT = object()

#: Functions of triton.language.extra.cuda with which a kernel waits for the one before it, or lets the next one begin.
_BETWEEN_KERNELS = ("gdc_wait", "gdc_launch_dependents")


class Language:
    """The interpreted language.

    `memory`: the builder that interprets all kernels. `iterations`: file and line of each `for` loop → the most
    iterations since the last launch cleared it.
    """

    def __init__(self) -> None:
        self.memory = Memory()
        self.iterations: dict[tuple[str, int], int] = {}
        self.semantic = known_shapes.Semantic(self.memory)
        self._libdevice = libdevice.libdevice_functions()
        self._builtins = [
            (owner, name, self._with_semantic(member))
            for owner in (tl, tl.core, tl.math, tl.core.tensor, tl.core.tensor_descriptor_base)
            for name, member in inspect.getmembers(owner, tl.core.is_builtin)
        ]
        self._depth = 0
        self._replaced: dict[Any, dict[str, Any]] = {}

    @contextlib.contextmanager
    def interpreting(self) -> Iterator[None]:
        """Inside, @triton.jit functions and builtins run on the CPU. May be nested."""
        if self._depth:
            yield
            return
        if not self._replaced:
            self._replaced = self._replacements()
        self._depth += 1
        before = {
            owner: {name: vars(owner).get(name, _ABSENT) for name in new} for owner, new in self._replaced.items()
        }
        try:
            for owner, attributes in self._replaced.items():
                _set_attributes(owner, attributes)
            yield
        finally:
            self._depth -= 1
            for owner, attributes in before.items():
                _set_attributes(owner, attributes)

    def _replacements(self) -> dict[Any, dict[str, Any]]:
        """Object → name → the interpreter's value. Triton makes them by replacing, so this replaces and restores."""
        scope = interpreter._LangPatchScope()
        try:
            self._install(scope)
            owners = dict.fromkeys(owner for owner, *_ in scope._changes)
            names = [(owner, name) for owner, name, *_ in scope._changes]
            return {owner: {name: vars(owner)[name] for each, name in names if each is owner} for owner in owners}
        finally:
            scope.restore()

    def _install(self, scope: Any) -> None:
        for owner, name, builtin in self._builtins:
            scope.set_attr(owner, name, builtin)
        known_shapes.install(scope)
        for name, value in _TENSOR.items():
            scope.set_attr(tl.core.tensor, name, value)
        for owner in (tl, tl.core):
            interpreter._patch_lang_core(owner, scope)
            scope.set_attr(owner, "range", self._range)
        for owner in (tl, tl.core):  # the interpreter's own functions, just installed in both, are slow
            scope.set_attr(owner, "reduce", reductions.reduce)
            scope.set_attr(owner, "associative_scan", reductions.associative_scan)
        for name, function in self._libdevice.items():
            scope.set_attr(tl.extra.libdevice, name, function)
        for name in _BETWEEN_KERNELS:
            scope.set_attr(tl.extra.cuda, name, _no_operation)
        scope.set_attr(JITFunction, "__call__", lambda fn, *args, **kwargs: self.function(fn.fn)(*args, **kwargs))
        scope.set_attr(triton_helpers, "if_mask", lambda mask, value: None if mask is None else value)
        scope.set_attr(triton_helpers, "constexpr_next_power_of_2", _next_power_of_2)
        scope.set_attr(triton_helpers, "x_grid_barrier", self._barrier)

    def _with_semantic(self, member: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(member)
        def call(*args: Any, **kwargs: Any) -> Any:
            kwargs["_semantic"] = self.semantic
            return member(*args, **kwargs)

        return call

    def _range(self, first: Any, end: Any = None, step: Any = 1, **_hints: Any) -> Iterator[Any]:
        """tl.range: its values are tensors, so that kernels can call `.to` of them. The hints are for a compiler."""
        values = range(first) if end is None else range(first, end, step)
        return (self.semantic.to_tensor(value, False) for value in values)

    def _barrier(self, semaphore: Any) -> None:
        values = tl.load(semaphore).handle.data.astype(np.uint32)
        if not np.isin(values, (0, 0x80000000)).all():
            raise KernelFaultError(
                f"the semaphore of a barrier must start at 0 or 0x80000000, not at {values.max():#x}"
            )
        self.memory.barrier()

    def _counted(self, file: str, line: int, values: Iterable[Any]) -> Iterator[Any]:
        """The values of a `for` loop. Counts them in `iterations`."""
        loop = (file, line)
        self.iterations.setdefault(loop, 0)
        for number, value in enumerate(values, 1):
            self.iterations[loop] = max(self.iterations[loop], number)
            yield value

    def function(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """The Python function of a @triton.jit function. Its assignments turn numbers into tensors, as in a kernel."""
        return _python_function(fn, self.semantic, self._counted)


def _set_attributes(owner: Any, attributes: dict[str, Any]) -> None:
    """Sets attributes of a module or class; deletes those whose value is _ABSENT."""
    present = {name: value for name, value in attributes.items() if value is not _ABSENT}
    if isinstance(owner, types.ModuleType):
        vars(owner).update(present)
    else:
        for name, value in present.items():
            setattr(owner, name, value)
    for name in attributes.keys() - present.keys():
        delattr(owner, name)


def _uniform_value(tensor: Any) -> Any:
    """The value of a scalar that is equal in all programs. Raises DivergentProgramsError if it differs."""
    data = tensor.handle.data
    if data.size > 1 and not (data == data.flat[0]).all():
        raise DivergentProgramsError("a condition or bound")
    return data.flat[0]


def _truth(tensor: Any) -> bool:
    # Triton's semantics use `if tensor` to ask whether there is a tensor; a kernel uses it for the value of a scalar.
    if tensor.type.is_block() or sys._getframe(1).f_globals.get("__name__") == TritonSemantic.__module__:
        return True
    return bool(_uniform_value(tensor))


def _transposed(tensor: Any) -> Any:
    shape = list(tensor.shape)
    shape[-1], shape[-2] = shape[-2], shape[-1]
    handle = TensorHandle(np.swapaxes(tensor.handle.data, -1, -2), tensor.handle.dtype)
    return tl.core.tensor(handle, tl.block_type(tensor.dtype, shape))


_TENSOR = {
    "__index__": lambda tensor: int(_uniform_value(tensor)),
    "__bool__": _truth,
    "T": property(_transposed),
    "__repr__": lambda tensor: repr(tensor.handle.data),
    "__str__": lambda tensor: str(tensor.handle.data),
}


def _no_operation() -> None:
    """The emulation runs kernels one after the other, so none waits for another."""


def _next_power_of_2(n: Any) -> int:
    return 1 << (int(tl.core._unwrap_if_constexpr(n)) - 1).bit_length()


class _TritonSemantics(ast.NodeTransformer):
    """Rewrites Python code that Triton reads differently.

    In Triton `x = 3` makes a tensor (`x: tl.constexpr = 3` does not), and `not`, `and` and `or` work on each element of
    a tensor. The iterations of a `for` loop are counted.
    """

    def visit_Assign(self, node: ast.Assign) -> ast.Assign:
        self.generic_visit(node)
        node.value = _helper_call("tensor", node.value, node.value)
        return node

    def visit_For(self, node: ast.For) -> ast.For:
        self.generic_visit(node)
        node.iter = _helper_call("counted", node.iter, ast.copy_location(ast.Constant(node.lineno), node), node.iter)
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        return _helper_call("not", node, node.operand) if isinstance(node.op, ast.Not) else node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        name = "and" if isinstance(node.op, ast.And) else "or"
        result = node.values[-1]
        for value in reversed(node.values[:-1]):
            no_parameters = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
            result = _helper_call(name, node, value, ast.Lambda(args=no_parameters, body=result))
        return result


def _helper_call(name: str, where: ast.AST, *arguments: ast.expr) -> ast.Call:
    """A call of `_conformance_NAME`, at the source position of `where`."""
    function = ast.Name(id=f"_conformance_{name}", ctx=ast.Load())
    return ast.copy_location(ast.Call(func=function, args=list(arguments), keywords=[]), where)


def _not(value: Any) -> Any:
    return value.__not__() if isinstance(value, tl.core.tensor) else not value


def _and(left: Any, right: Callable[[], Any]) -> Any:
    return left.logical_and(right()) if isinstance(left, tl.core.tensor) else left and right()


def _or(left: Any, right: Callable[[], Any]) -> Any:
    return left.logical_or(right()) if isinstance(left, tl.core.tensor) else left or right()


#: The cache is for helpers, which all kernels share. It drops the functions of old kernels.
@functools.lru_cache(maxsize=512)
def _python_function(fn: Callable[..., Any], semantic: Any, counted: Callable[..., Any]) -> Callable[..., Any]:
    lines, first = inspect.getsourcelines(fn)
    start = next(number for number, line in enumerate(lines) if line.lstrip().startswith("def "))
    tree = ast.parse(textwrap.dedent("".join(lines[start:])))
    _TritonSemantics().visit(tree)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            node.decorator_list = []
    ast.fix_missing_locations(tree)
    ast.increment_lineno(tree, first + start - 1)
    namespace = {**fn.__globals__, "_conformance_not": _not, "_conformance_and": _and, "_conformance_or": _or}
    namespace["_conformance_counted"] = functools.partial(counted, fn.__code__.co_filename)
    namespace["_conformance_tensor"] = lambda value: semantic.to_tensor(value, False)
    exec(compile(tree, fn.__code__.co_filename, "exec"), namespace)  # noqa: S102 - the kernel itself
    return namespace[fn.__name__]


@functools.cache
def shared_language() -> Language:
    """The Language that all launches of this process share."""
    return Language()
