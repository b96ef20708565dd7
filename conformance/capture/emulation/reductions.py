"""tl.reduce and tl.associative_scan with any combine function, vectorised: a tree over array halves.

Triton's own interpreter calls the combine function once an element, which takes minutes for a few thousand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime.interpreter import TensorHandle

from conformance.capture.emulation.values import stored


def reduce(operand: Any, axis: Any, combine_fn: Callable[..., Any], keep_dims: Any = False, **_options: Any) -> Any:
    """As tl.reduce: `operand` a tensor or a tuple of them, `axis` None for all. Neighbours are combined first, so that
    the order of the elements is kept.
    """
    axis, keep_dims = tl.core._unwrap_if_constexpr(axis), bool(tl.core._unwrap_if_constexpr(keep_dims))
    tensors = operand if isinstance(operand, tuple) else (operand,)
    rank = tensors[0].handle.data.ndim
    arrays = [t.handle.data.reshape(-1) if axis is None else np.moveaxis(t.handle.data, axis, 0) for t in tensors]
    dtypes = [t.dtype for t in tensors]
    while arrays[0].shape[0] > 1:
        arrays = _combined(combine_fn, [a[0::2] for a in arrays], [a[1::2] for a in arrays], dtypes)
    results = [array[0] for array in arrays]
    if keep_dims:
        places = tuple(range(rank)) if axis is None else axis
        results = [np.expand_dims(result, places) for result in results]
    packed = tuple(_tensor(result, dtype) for result, dtype in zip(results, dtypes, strict=True))
    return packed if isinstance(operand, tuple) else packed[0]


def associative_scan(
    operand: Any, axis: Any, combine_fn: Callable[..., Any], reverse: Any = False, **_options: Any
) -> Any:
    """As tl.associative_scan: as many steps as the length has bits, each combining with the element 1, 2, 4… before."""
    axis, reverse = tl.core._unwrap_if_constexpr(axis), bool(tl.core._unwrap_if_constexpr(reverse))
    tensors = operand if isinstance(operand, tuple) else (operand,)
    dtypes = [t.dtype for t in tensors]
    arrays = [np.moveaxis(t.handle.data, axis, 0) for t in tensors]
    if reverse:
        arrays = [array[::-1] for array in arrays]
    step = 1
    while step < arrays[0].shape[0]:
        # Whole arrays: Triton's types have sizes that are powers of two.
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
    sides = [_tensor(array, dtype) for array, dtype in zip((*left, *right), (*dtypes, *dtypes), strict=True)]
    found = combine_fn(*sides)
    found = found if isinstance(found, tuple) else (found,)
    return [
        np.broadcast_to(each.handle.data, left[0].shape).astype(stored(dtype), copy=False)
        for each, dtype in zip(found, dtypes, strict=True)
    ]


def _tensor(array: np.ndarray, dtype: Any) -> Any:
    array = np.ascontiguousarray(array)
    if array.ndim == 0 or not array.shape:
        return tl.core.tensor(TensorHandle(array.reshape(1), dtype), dtype)
    return tl.core.tensor(TensorHandle(array, dtype), tl.block_type(dtype, list(array.shape)))
