"""Runs a function in float64 where it would compute in a narrower dtype. The result is its reference."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch.overrides import TorchFunctionMode


class _Float64Mode(TorchFunctionMode):
    """Replaces the narrower dtypes that a function asks for by float64 and complex128.

    Leaves calls alone that reinterpret bits.
    """

    _WIDE: ClassVar = {
        torch.float16: torch.float64,
        torch.bfloat16: torch.float64,
        torch.float32: torch.float64,
        torch.complex64: torch.complex128,
    }
    # A tuple: eager's control flow lets Dynamo trace this mode, and that of torch 2.8 cannot trace `in` of a set.
    _CASTS: ClassVar = (torch.Tensor.float, torch.Tensor.half, torch.Tensor.bfloat16)

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if func in self._CASTS:
            return torch.Tensor.double(args[0], **(kwargs or {}))
        if func in (torch.Tensor.view, torch.ops.aten.view.dtype):
            return func(*args, **(kwargs or {}))
        args = tuple(self._wide(arg) for arg in args)
        return func(*args, **{key: self._wide(value) for key, value in (kwargs or {}).items()})

    def _wide(self, value: Any) -> Any:
        return self._WIDE.get(value, value) if isinstance(value, torch.dtype) else value


@contextlib.contextmanager
def computing_in_float64() -> Iterator[None]:
    """Inside, functions compute in float64: the dtypes that they ask for, new constants, and quotients of integers."""
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with _Float64Mode():
            yield
    finally:
        torch.set_default_dtype(default)
