"""Vectorised tl.reduce and tl.associative_scan, for any combine function.

Each call of the combine function gets whole halves of an array. Triton's own interpreter calls it once for each
element, which takes minutes for a few thousand elements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime.interpreter import TensorHandle

from conformance.capture.emulation.arithmetic import broadcast_programs
from conformance.capture.emulation.dtypes import storage_dtype


def reduce(operand: Any, axis: Any, combine_fn: Callable[..., Any], keep_dims: Any = False, **_options: Any) -> Any:
    """Replaces tl.reduce. Combines neighbours first, so that the elements keep their order.

    `operand`: a tensor, or a tuple of tensors of one shape. `axis`: None reduces all axes.
    """
    axis, keep_dims = tl.core._unwrap_if_constexpr(axis), bool(tl.core._unwrap_if_constexpr(keep_dims))
    tensors = operand if isinstance(operand, tuple) else (operand,)
    data = broadcast_programs(*(t.handle.data for t in tensors))
    rank = data[0].ndim - 1  # the first axis counts the programs
    if axis is None:
        arrays = [each.reshape(len(each), -1).T for each in data]
    else:
        arrays = [np.moveaxis(each, axis % rank + 1, 0) for each in data]
    dtypes = [t.dtype for t in tensors]
    while arrays[0].shape[0] > 1:
        arrays = _combined(combine_fn, [a[0::2] for a in arrays], [a[1::2] for a in arrays], dtypes)
    results = [array[0] for array in arrays]
    if keep_dims:
        axes = tuple(range(1, rank + 1)) if axis is None else axis % rank + 1
        results = [np.expand_dims(result, axes) for result in results]
    packed = tuple(_tensor(np.ascontiguousarray(result), dtype) for result, dtype in zip(results, dtypes, strict=True))
    return packed if isinstance(operand, tuple) else packed[0]


def associative_scan(
    operand: Any, axis: Any, combine_fn: Callable[..., Any], reverse: Any = False, **_options: Any
) -> Any:
    """Replaces tl.associative_scan. Combines elements at distance 1, 2, 4, …: log2(length) steps."""
    axis, reverse = tl.core._unwrap_if_constexpr(axis), bool(tl.core._unwrap_if_constexpr(reverse))
    tensors = operand if isinstance(operand, tuple) else (operand,)
    dtypes = [t.dtype for t in tensors]
    data = broadcast_programs(*(t.handle.data for t in tensors))
    axis = axis % (data[0].ndim - 1) + 1
    arrays = [np.moveaxis(each, axis, 0) for each in data]
    if reverse:
        arrays = [array[::-1] for array in arrays]
    step = 1
    while step < arrays[0].shape[0]:
        # Combines whole arrays: a Triton tensor has a power of two as its size.
        new = _combined(combine_fn, [np.roll(array, step, axis=0) for array in arrays], arrays, dtypes)
        arrays = [np.concatenate([old[:step], each[step:]]) for old, each in zip(arrays, new, strict=True)]
        step *= 2
    if reverse:
        arrays = [array[::-1] for array in arrays]
    packed = tuple(_tensor(np.moveaxis(a, 0, axis), dtype) for a, dtype in zip(arrays, dtypes, strict=True))
    return packed if isinstance(operand, tuple) else packed[0]


def _combined(
    combine_fn: Callable[..., Any], left: Sequence[np.ndarray], right: Sequence[np.ndarray], dtypes: Sequence[Any]
) -> list[np.ndarray]:
    """The results of the combine function. All arrays have the shape (reduced axis, programs, *other axes)."""
    shape = left[0].shape
    sides = [
        _tensor(np.moveaxis(array, 1, 0), dtype)
        for array, dtype in zip((*left, *right), (*dtypes, *dtypes), strict=True)
    ]
    results = combine_fn(*sides)
    results = results if isinstance(results, tuple) else (results,)
    return [
        np.broadcast_to(np.moveaxis(each.handle.data, 0, 1), shape).astype(storage_dtype(dtype), copy=False)
        for each, dtype in zip(results, dtypes, strict=True)
    ]


def _tensor(array: np.ndarray, dtype: Any) -> Any:
    """The Triton tensor of an array of shape (programs, *shape)."""
    shape = list(array.shape[1:])
    return tl.core.tensor(TensorHandle(array, dtype), tl.block_type(dtype, shape) if shape else dtype)
