"""Computing in float64 what a function computes in a narrower dtype: its reference."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, ClassVar

import torch
from torch.overrides import TorchFunctionMode


class _Widened(TorchFunctionMode):
    """Replaces floating dtypes that a function asks for by float64 and complex128, but for reinterpreting bits."""

    _WIDE: ClassVar = {torch.float16: torch.float64, torch.bfloat16: torch.float64, torch.float32: torch.float64}
    _WIDE |= {torch.complex64: torch.complex128}
    _NAMED: ClassVar = {torch.Tensor.float, torch.Tensor.half, torch.Tensor.bfloat16}

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func in self._NAMED:
            return torch.Tensor.double(args[0], **(kwargs or {}))
        if func in (torch.Tensor.view, torch.ops.aten.view.dtype):
            return func(*args, **(kwargs or {}))
        args = tuple(self._wide(arg) for arg in args)
        return func(*args, **{key: self._wide(value) for key, value in (kwargs or {}).items()})

    def _wide(self, value: Any) -> Any:
        return self._WIDE.get(value, value) if isinstance(value, torch.dtype) else value


@contextlib.contextmanager
def widened() -> Iterator[None]:
    """Computes in float64 what is called within: dtypes asked for, constants made, and quotients of integers."""
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with _Widened():
            yield
    finally:
        torch.set_default_dtype(default)
