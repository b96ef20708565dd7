"""Records why an operator becomes a fallback, a call of its eager kernel.

Decision: while Inductor lowers a node of the graph, it makes a fallback because of the node's dtype, because the
operator's lowering only calls the eager kernel (make_fallback), or because a lowering gives up. The reason is the last
negative answer, or the condition around the call. Where: torch/_inductor/graph.py (GraphLowering.run_node) and
torch/_inductor/lowering.py.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any

from conformance.capture.patching.patch import Patch

_REASON = "_conformance_reason"
_LONGEST = 100  # characters of a condition in a reason


@dataclass
class _Lowering:
    """The answers while Inductor lowers one node. `refused`: of the dtype rule; `notes`: of all other rules."""

    refused: str = ""
    notes: list[str] = field(default_factory=list)


_lowering: list[_Lowering] = []  # a stack: a lowering may lower a subgraph


def patches() -> list[Patch]:
    graph, lowering = "torch._inductor.graph", "torch._inductor.lowering"
    return [
        Patch(f"{graph}:GraphLowering.run_node", _run_node, "records which node is lowered"),
        Patch(f"{graph}:GraphLowering.register_operation", _register_operation, "records where a fallback is made"),
        Patch(f"{graph}:GraphLowering.has_feature", _has_feature, "records what the device's backend lacks"),
        Patch(f"{graph}:should_fallback_by_default", _by_default, "records fallbacks by configuration"),
        Patch(f"{lowering}:unsupported_input_tensor", _unsupported("input"), "records dtypes that no kernel reads"),
        Patch(f"{lowering}:unsupported_output_tensor", _unsupported("output"), "records dtypes that no kernel writes"),
        Patch(f"{lowering}:use_scatter_fallback", _scatter, "records scatters that call the eager kernel"),
    ]


def reset() -> None:
    _lowering.clear()


def reason(operation: Any) -> str:
    """Why an operation of Inductor's IR is a fallback; "" if no reason was recorded."""
    return getattr(operation, _REASON, "")


@functools.cache
def registered_fallbacks() -> frozenset[Any]:
    """The operators that torch itself registers as fallbacks.

    Call it before the first graph is lowered: a graph adds its operators without a lowering. Later calls return the
    first answer.
    """
    from torch._inductor import lowering

    return frozenset(lowering.fallbacks)


#: Further ones, which only the build that is pretended now registers.
_of_build: set[Any] = set()


@contextlib.contextmanager
def registered_by_build(*operators: Any) -> Iterator[None]:
    """Inside, the operators count as registered by torch itself."""
    _of_build.update(operators)
    try:
        yield
    finally:
        _of_build.difference_update(operators)


def inductor_heading(name: str) -> str:
    """The heading above `name` in Inductor's list of operators without lowering: `Difficult` for `aten.histc`.

    "" if the list does not have it. Read from the comments of torch/_inductor/lowering.py.
    """
    return _headings().get(name, "")


@functools.cache
def _headings() -> dict[str, str]:
    from torch._inductor import lowering

    headings: dict[str, str] = {}
    heading = ""
    for line in inspect.getsource(lowering).split("\n"):
        if title := re.match(r"# \d\) (.*)", line):
            heading = title[1]
        elif line.startswith(("def ", "@")):
            heading = ""  # the list ends here
        elif heading and (operator := re.match(r"(?:make_fallback\(|    )(aten\.\w+)", line)):
            headings.setdefault(operator[1], heading)
    return headings


# Wrappers -------------------------------------------------------------------------------------------------------------


def _run_node(original: Callable[..., Any]) -> Callable[..., Any]:
    registered_fallbacks()  # before anything is lowered

    @functools.wraps(original)
    def run_node(self: Any, node: Any) -> Any:
        _lowering.append(_Lowering())
        try:
            return original(self, node)
        finally:
            _lowering.pop()

    return run_node


def _unsupported(side: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def unsupported_tensor(tensor: Any, *args: Any, **kwargs: Any) -> bool:
            answer = original(tensor, *args, **kwargs)
            if answer and _lowering:
                kind = "sparse" if tensor.is_sparse else "meta" if tensor.is_meta else f"dtype {_dtype(tensor.dtype)}"
                _lowering[-1].refused = _lowering[-1].refused or f"{side} of {kind}"
            return answer

        return unsupported_tensor

    return make


def _has_feature(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def has_feature(self: Any, device: Any, feature: Any) -> bool:
        answer = original(self, device, feature)
        if not answer:
            _note(f"the backend has no {feature.name}")
        return answer

    return has_feature


def _scatter(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def use_scatter_fallback(overload: Any, reduction: Any, dtype: Any, source: Any, device: Any, *args: Any) -> bool:
        answer = original(overload, reduction, dtype, source, device, *args)
        if answer:
            _note(f"use_scatter_fallback: {reduction or 'no reduction'} of {_dtype(dtype)} on {device}")
        return answer

    return use_scatter_fallback


def _by_default(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def should_fallback_by_default(node: Any) -> bool:
        answer = original(node)
        if answer:
            _note("config.fallback_by_default")
        return answer

    return should_fallback_by_default


def _note(text: str) -> None:
    if _lowering:
        _lowering[-1].notes.append(text)


def _dtype(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


def _register_operation(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def register_operation(self: Any, operation: Any) -> Any:
        if any("Fallback" in base.__name__ for base in type(operation).__mro__):
            setattr(operation, _REASON, _reason(self.current_node, operation, sys._getframe(1)))
        return original(self, operation)

    return register_operation


# Reasons --------------------------------------------------------------------------------------------------------------


def _reason(node: Any, operation: Any, frame: FrameType) -> str:
    """Why `operation` is a fallback. `node`: None if no operator of the graph asks for it. `frame`: what makes it."""
    from torch._inductor.lowering import lowerings

    if node is None:
        return "the scheduler added it"

    answers = _lowering[-1] if _lowering else _Lowering()
    if answers.refused:
        return f"{answers.refused}: not generated"
    if "should_fallback" in node.meta or answers.notes[-1:] == ["config.fallback_by_default"]:
        return "config.fallback_by_default" if answers.notes else "a pass asked for it"
    for target in (node.target, getattr(operation, "op_overload", None)):
        if getattr(lowerings.get(target), "_is_fallback_handler", False):
            return _without_lowering(target)
    return _lowering_gave_up(answers, frame)


def _without_lowering(target: Any) -> str:
    import torch

    if not isinstance(target, torch._ops.OpOverload):
        return "a higher-order operator without a lowering"
    if not torch._library.utils.is_builtin(target):
        return "custom operator"
    if target in registered_fallbacks() or target in _of_build:
        return "make_fallback: no lowering"
    return "no lowering and no decomposition"


def _lowering_gave_up(answers: _Lowering, frame: FrameType) -> str:
    """Why a lowering calls the eager kernel: the last negative answer, or the condition around the call."""
    if answers.notes:
        return answers.notes[-1]
    at: FrameType | None = frame
    inside = False
    while at is not None:
        if _is_lowering(at):
            inside = True
            condition = _condition(at.f_code, at.f_lineno)
            if condition:
                return f"the lowering gives up if {condition}"
        elif inside:
            break  # the caller of the lowering is not a part of it
        at = at.f_back
    return "the lowering is one" if inside else "made outside of any lowering"


def _is_lowering(frame: FrameType) -> bool:
    module = frame.f_globals.get("__name__", "")
    inside = module.startswith(("torch._inductor.lowering", "torch._inductor.kernel."))
    return inside and frame.f_code.co_name not in ("handler", "wrapped")  # wrappers of every lowering


@functools.cache
def _condition(code: CodeType, line: int) -> str:
    """The test of the innermost `if` around a line of a function; "" if there is none."""
    source, first = inspect.getsourcelines(code)
    tree = ast.parse(textwrap.dedent("".join(source)))
    condition = ""
    for each in ast.walk(tree):  # outer statements first
        if isinstance(each, ast.If):
            for branch, word in ((each.body, ""), (each.orelse, "not ")):
                if branch and branch[0].lineno <= line - first + 1 <= (branch[-1].end_lineno or 0):
                    test = _unparsed(each.test)
                    condition = f"not ({test})" if word and " " in test else word + test
    return condition if len(condition) <= _LONGEST else condition[:_LONGEST] + "…"


def _unparsed(expression: ast.expr) -> str:
    """The text of an expression, the same with each version of Python: 3.10 writes `for (k, s) in`."""
    return re.sub(r"\bfor \(([\w, ]+)\) in ", r"for \1 in ", ast.unparse(expression))
