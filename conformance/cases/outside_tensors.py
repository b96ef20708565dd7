"""Modules and tensors that a case's function takes from outside: they stay on the CPU and keep their dtype."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any


def advice(fn: Callable[..., Any]) -> str:
    """A sentence that names what `fn` takes from outside and says what to do instead; "" if it takes nothing.

    `fn` may be a wrapper that functools.wraps made.
    """
    names = _outside(inspect.unwrap(fn))
    if not names:
        return ""
    return (
        f"the function takes {' and '.join(names)} from outside, which stays on the CPU and keeps its dtype: "
        "make it in the function, such as net = Net().to(x.device), or declare its parameters as inputs and use "
        "torch.func.functional_call"
    )


def _outside(fn: Callable[..., Any]) -> list[str]:
    import torch

    if not inspect.isfunction(fn):
        return []
    variables = inspect.getclosurevars(fn)
    found = {**variables.globals, **variables.nonlocals}
    return sorted(
        f"{name}, a {type(value).__name__},"
        for name, value in found.items()
        if isinstance(value, torch.Tensor) or (isinstance(value, torch.nn.Module) and value.state_dict())
    )
