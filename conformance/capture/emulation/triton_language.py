"""Triton's language for the length of a launch: builtins compute with numpy, and @triton.jit functions can be called.

Triton interprets only where TRITON_INTERPRET was set when it was imported, and then generates nothing. Here the same
parts are put in place around each run and taken back (Triton 3.6 to 3.9).
"""

from __future__ import annotations

import ast
import contextlib
import functools
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import triton.language as tl
from torch._inductor.runtime import triton_helpers
from triton.language.semantic import TritonSemantic
from triton.runtime import interpreter
from triton.runtime.interpreter import TensorHandle
from triton.runtime.jit import JITFunction

from conformance.capture.emulation import libdevice, reductions
from conformance.capture.emulation.errors import KernelFault, NotUniformError
from conformance.capture.emulation.memory import Memory

_ABSENT = object()


class Language:
    """`memory`: the builder all kernels are interpreted with."""

    def __init__(self) -> None:
        self.memory = Memory()
        self.semantic = TritonSemantic(self.memory)
        self._bodies = libdevice.bodies()
        self._builtins = [
            (owner, name, self._builtin(member))
            for owner in (tl, tl.core, tl.math, tl.core.tensor, tl.core.tensor_descriptor_base)
            for name, member in inspect.getmembers(owner, tl.core.is_builtin)
        ]
        self._depth = 0

    @contextlib.contextmanager
    def spoken(self) -> Iterator[None]:
        """Inside, functions of @triton.jit and builtins run on the cpu. May be entered again inside."""
        if self._depth:
            yield
            return
        scope = interpreter._LangPatchScope()
        self._depth += 1
        try:
            self._put(scope)
            yield
        finally:
            self._depth -= 1
            scope.restore()

    def _put(self, scope: Any) -> None:
        for owner, name, builtin in self._builtins:
            scope.set_attr(owner, name, builtin)
        for name, value in _TENSOR.items():
            scope.set_attr(tl.core.tensor, name, value)
        for owner in (tl, tl.core):
            interpreter._patch_lang_core(owner, scope)
        for owner in (tl, tl.core):  # the interpreter's own, just put in both, are slow
            scope.set_attr(owner, "reduce", reductions.reduce)
            scope.set_attr(owner, "associative_scan", reductions.associative_scan)
        for name, body in self._bodies.items():
            scope.set_attr(tl.extra.libdevice, name, body)
        scope.set_attr(JITFunction, "__call__", lambda fn, *args, **kwargs: self.function(fn.fn)(*args, **kwargs))
        scope.set_attr(triton_helpers, "if_mask", lambda mask, value: None if mask is None else value)
        scope.set_attr(triton_helpers, "constexpr_next_power_of_2", _next_power_of_2)
        scope.set_attr(triton_helpers, "x_grid_barrier", self._barrier)

    def _builtin(self, member: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(member)
        def call(*args: Any, **kwargs: Any) -> Any:
            kwargs["_semantic"] = self.semantic
            return member(*args, **kwargs)

        return call

    def _barrier(self, semaphore: Any) -> None:
        begun = tl.load(semaphore).handle.data.astype(np.uint32)
        if not np.isin(begun, (0, 0x80000000)).all():
            raise KernelFault(f"a semaphore of a barrier does not begin at 0 or 0x80000000, but at {begun.max():#x}")
        self.memory.barrier()

    def function(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """The Python function of a @triton.jit one, its assignments making tensors of numbers, as in a kernel."""
        return _rewritten(fn, self.semantic)


def _uniform(tensor: Any) -> Any:
    """The value of a scalar that all programs agree in."""
    data = tensor.handle.data
    if data.size > 1 and not (data == data.flat[0]).all():
        raise NotUniformError("a condition or bound")
    return data.flat[0]


def _truth(tensor: Any) -> bool:
    # Triton's semantics ask so whether there is a tensor at all; a kernel asks for a scalar's value.
    if tensor.type.is_block() or sys._getframe(1).f_globals.get("__name__") == TritonSemantic.__module__:
        return True
    return bool(_uniform(tensor))


def _transposed(tensor: Any) -> Any:
    shape = list(tensor.shape)
    shape[-1], shape[-2] = shape[-2], shape[-1]
    handle = TensorHandle(np.swapaxes(tensor.handle.data, -1, -2), tensor.handle.dtype)
    return tl.core.tensor(handle, tl.block_type(tensor.dtype, shape))


_TENSOR = {
    "__index__": lambda tensor: int(_uniform(tensor)),
    "__bool__": _truth,
    "T": property(_transposed),
    "__repr__": lambda tensor: repr(tensor.handle.data),
    "__str__": lambda tensor: str(tensor.handle.data),
}


def _next_power_of_2(n: Any) -> int:
    return 1 << (int(tl.core._unwrap_if_constexpr(n)) - 1).bit_length()


class _AsTriton(ast.NodeTransformer):
    """What Triton's compiler reads otherwise than Python: x = 3 makes a tensor (x: tl.constexpr = 3 does not), and
    `not`, `and` and `or` of tensors are element by element.
    """

    def visit_Assign(self, node: ast.Assign) -> ast.Assign:
        self.generic_visit(node)
        node.value = _called("tensor", node.value, node.value)
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        return _called("not", node, node.operand) if isinstance(node.op, ast.Not) else node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        name = "and" if isinstance(node.op, ast.And) else "or"
        found = node.values[-1]
        for value in reversed(node.values[:-1]):
            nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
            found = _called(name, node, value, ast.Lambda(args=nothing, body=found))
        return found


def _called(name: str, where: ast.AST, *arguments: ast.expr) -> ast.Call:
    function = ast.Name(id=f"_conformance_{name}", ctx=ast.Load())
    return ast.copy_location(ast.Call(func=function, args=list(arguments), keywords=[]), where)


def _not(value: Any) -> Any:
    return value.__not__() if isinstance(value, tl.core.tensor) else not value


def _and(left: Any, right: Callable[[], Any]) -> Any:
    return left.logical_and(right()) if isinstance(left, tl.core.tensor) else left and right()


def _or(left: Any, right: Callable[[], Any]) -> Any:
    return left.logical_or(right()) if isinstance(left, tl.core.tensor) else left or right()


#: Helpers are shared by all kernels; a kernel's own function goes with its wrapper.
@functools.lru_cache(maxsize=512)
def _rewritten(fn: Callable[..., Any], semantic: Any) -> Callable[..., Any]:
    lines, first = inspect.getsourcelines(fn)
    start = next(number for number, line in enumerate(lines) if line.lstrip().startswith("def "))
    tree = ast.parse(textwrap.dedent("".join(lines[start:])))
    _AsTriton().visit(tree)
    for node in tree.body:
        node.decorator_list = []
    ast.fix_missing_locations(tree)
    ast.increment_lineno(tree, first + start - 1)
    place = {**fn.__globals__, "_conformance_not": _not, "_conformance_and": _and, "_conformance_or": _or}
    place["_conformance_tensor"] = lambda value: semantic.to_tensor(value, False)
    exec(compile(tree, inspect.getsourcefile(fn), "exec"), place)  # noqa: S102 - the kernel itself
    return place[fn.__name__]


@functools.cache
def language() -> Language:
    """The one of this process."""
    return Language()
