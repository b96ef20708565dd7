"""Why an operator is a fallback: which of Inductor's rules made its call of the eager kernel.

A fallback is made while a node of the graph is lowered: by the node's dtype, by a lowering that is nothing else
(make_fallback), or by one that gives up. What was asked meanwhile, and where the call stands, is the reason.
"""

from __future__ import annotations

import ast
import functools
import inspect
import re
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any

from conformance.capture.patching.patch import Patch

_REASON = "_conformance_reason"
_LONGEST = 100  # of a condition in a reason


@dataclass
class _Lowering:
    """Filled while one node of the graph is lowered. `refused`: what the dtype rule said; `notes`: of the others."""

    refused: str = ""
    notes: list[str] = field(default_factory=list)


_lowering: list[_Lowering] = []  # a stack: a lowering may lower a subgraph


def patches() -> list[Patch]:
    graph, lowering = "torch._inductor.graph", "torch._inductor.lowering"
    return [
        Patch(f"{graph}:GraphLowering.run_node", _run_node, "which node is lowered"),
        Patch(f"{graph}:GraphLowering.register_operation", _register_operation, "where a fallback is made"),
        Patch(f"{graph}:GraphLowering.has_feature", _has_feature, "what the device's backend has not"),
        Patch(f"{graph}:should_fallback_by_default", _by_default, "fallbacks by configuration"),
        Patch(f"{lowering}:unsupported_input_tensor", _unsupported("input"), "dtypes that are not read"),
        Patch(f"{lowering}:unsupported_output_tensor", _unsupported("output"), "dtypes that are not written"),
        Patch(f"{lowering}:use_scatter_fallback", _scatter, "scatters that are left to the eager kernel"),
    ]


def reset() -> None:
    _lowering.clear()


def reason(operation: Any) -> str:
    """Why the operation of Inductor's IR, a fallback, is one; "" where that was not seen."""
    return getattr(operation, _REASON, "")


@functools.cache
def registered() -> frozenset[Any]:
    """What torch itself has made a fallback, before a graph adds those that have nothing at all.

    Asked first before anything else is made one; later calls return the first one's answer.
    """
    from torch._inductor import lowering

    return frozenset(lowering.fallbacks)


def listed(name: str) -> str:
    """The heading that Inductor's list of operators without lowering has `name` under: `Difficult` for `aten.histc`.

    "" for one that is not in the list. Read in the comments of lowering.py (2.11 to 2.15).
    """
    return _headings().get(name, "")


@functools.cache
def _headings() -> dict[str, str]:
    from torch._inductor import lowering

    found: dict[str, str] = {}
    heading = ""
    for line in inspect.getsource(lowering).split("\n"):
        if title := re.match(r"# \d\) (.*)", line):
            heading = title[1]
        elif line.startswith(("def ", "@")):
            heading = ""  # the list is over
        elif heading and (operator := re.match(r"(?:make_fallback\(|    )(aten\.\w+)", line)):
            found.setdefault(operator[1], heading)
    return found


# What is watched ------------------------------------------------------------------------------------------------------


def _run_node(original: Callable[..., Any]) -> Callable[..., Any]:
    registered()  # before anything is lowered

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
            setattr(operation, _REASON, _why(self.current_node, operation, sys._getframe(1)))
        return original(self, operation)

    return register_operation


# What it means --------------------------------------------------------------------------------------------------------


def _why(node: Any, operation: Any, frame: FrameType) -> str:
    """`frame`: where the fallback is being made."""
    from torch._inductor.lowering import lowerings

    lowered = _lowering[-1] if _lowering else _Lowering()
    if lowered.refused:
        return f"{lowered.refused}: not generated"
    if "should_fallback" in node.meta or lowered.notes[-1:] == ["config.fallback_by_default"]:
        return "config.fallback_by_default" if lowered.notes else "a pass asked for it"
    for target in (node.target, getattr(operation, "op_overload", None)):
        if getattr(lowerings.get(target), "_is_fallback_handler", False):
            return _without_lowering(target)
    return _given_up(lowered, frame)


def _without_lowering(target: Any) -> str:
    import torch

    if not torch._library.utils.is_builtin(target):
        return "custom operator"
    if target in registered():
        return "make_fallback: no lowering"
    return "no lowering and no decomposition"


def _given_up(lowered: _Lowering, frame: FrameType) -> str:
    """Of a lowering that calls the eager kernel: what it was told, or the condition that the call stands under."""
    if lowered.notes:
        return lowered.notes[-1]
    at: FrameType | None = frame
    seen = False
    while at is not None:
        if _is_lowering(at):
            seen = True
            condition = _condition(at.f_code, at.f_lineno)
            if condition:
                return f"the lowering gives up if {condition}"
        elif seen:
            break  # what called the lowering is no part of it
        at = at.f_back
    return "the lowering is one" if seen else "made outside of any lowering"


def _is_lowering(frame: FrameType) -> bool:
    module = frame.f_globals.get("__name__", "")
    inside = module.startswith(("torch._inductor.lowering", "torch._inductor.kernel."))
    return inside and frame.f_code.co_name not in ("handler", "wrapped")  # what every lowering is wrapped in


@functools.cache
def _condition(code: CodeType, line: int) -> str:
    """The test of the innermost `if` around a line of a function; "" where it stands under none."""
    source, first = inspect.getsourcelines(code)
    tree = ast.parse(textwrap.dedent("".join(source)))
    found = ""
    for each in ast.walk(tree):  # outer ones first
        if isinstance(each, ast.If):
            for branch, word in ((each.body, ""), (each.orelse, "not ")):
                if branch and branch[0].lineno <= line - first + 1 <= (branch[-1].end_lineno or 0):
                    test = ast.unparse(each.test)
                    found = f"not ({test})" if word and " " in test else word + test
    return found if len(found) <= _LONGEST else found[:_LONGEST] + "…"
