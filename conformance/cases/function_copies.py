"""Copies of Python functions."""

from __future__ import annotations

import types


def with_code(function: types.FunctionType, code: types.CodeType) -> types.FunctionType:
    """A copy of a function with another code object."""
    copy = types.FunctionType(
        code, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__qualname__, copy.__module__, copy.__doc__ = function.__qualname__, function.__module__, function.__doc__
    copy.__dict__.update(function.__dict__)
    return copy
