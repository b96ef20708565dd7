"""Calls in the source of a function whose result is on a device of their own, and not on that of the arguments."""

from __future__ import annotations

import ast
import inspect
import os
import re
import textwrap
from collections.abc import Callable
from typing import Any

_DEVICE = re.compile(r"(cpu|cuda|xpu|mps)(:\d+)?")
#: Functions of torch that make a tensor on the CPU where no device is named.
_MAKERS = re.compile(
    r"torch\.(arange|as_tensor|empty|eye|from_numpy|full|hann_window|linspace|logspace|ones|rand|randint|randn"
    r"|randperm|tensor|tril_indices|triu_indices|zeros)"
)
#: The most calls that are named.
_MOST = 3


def own_devices(function: Callable[..., Any]) -> list[str]:
    """The calls that name a device: "test_it.py:5: torch.ones(33, device='cuda')". Without one, those that make tensors
    and name no device. None of a function without source.
    """
    try:
        lines, first = inspect.getsourcelines(function)
        statement = ast.parse(textwrap.dedent("".join(lines))).body[0]
    except (OSError, TypeError, SyntaxError):
        return []
    body = ast.Module(getattr(statement, "body", []), [])  # without decorators
    calls = [node for node in ast.walk(body) if isinstance(node, ast.Call)]
    found = [each for each in calls if _names_device(each)] or [each for each in calls if _makes_tensor(each)]
    start = os.path.relpath(inspect.getsourcefile(function) or "")
    return [f"{start}:{first + each.lineno - 1}: {ast.unparse(each)}" for each in found[:_MOST]]


def _names_device(call: ast.Call) -> bool:
    words = [
        each.value for each in (*call.args, *(key.value for key in call.keywords)) if isinstance(each, ast.Constant)
    ]
    moves = isinstance(call.func, ast.Attribute) and call.func.attr in ("cpu", "cuda", "xpu")
    return moves or any(isinstance(word, str) and _DEVICE.fullmatch(word) for word in words)


def _makes_tensor(call: ast.Call) -> bool:
    named = any(key.arg in ("device", None) for key in call.keywords)
    return not named and _MAKERS.fullmatch(ast.unparse(call.func)) is not None
