"""tl.reduce and tl.associative_scan with any combine function, vectorised: a tree over array halves.

Triton's own interpreter calls the combine function once an element, which takes minutes for a few thousand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime.interpreter import TensorHandle

from conformance.capture.emulation.dtypes import stored


def reduce(operand: Any, axis: Any, combine_fn: Callable[..., Any], keep_dims: Any = False, **_options: Any) -> Any:
    """As tl.reduce: `operand` a tensor or a tuple of them, `axis` None for all. Neighbours are combined first, so that
    the order of the elements is kept.
    """
    axis, keep_dims = tl.core._unwrap_if_constexpr(axis), bool(tl.core._unwrap_if_constexpr(keep_dims))
    tensors = operand if isinstance(operand, tuple) else (operand,)
    data = _together([t.handle.data for t in tensors])
    rank = data[0].ndim - 1  # the first axis is the programs'
    if axis is None:
        arrays = [each.reshape(len(each), -1).T for each in data]
    else:
        arrays = [np.moveaxis(each, axis % rank + 1, 0) for each in data]
    dtypes = [t.dtype for t in tensors]
    while arrays[0].shape[0] > 1:
        arrays = _combined(combine_fn, [a[0::2] for a in arrays], [a[1::2] for a in arrays], dtypes)
    results = [array[0] for array in arrays]
    if keep_dims:
        places = tuple(range(1, rank + 1)) if axis is None else axis % rank + 1
        results = [np.expand_dims(result, places) for result in results]
    packed = tuple(_tensor(np.ascontiguousarray(result), dtype) for result, dtype in zip(results, dtypes, strict=True))
    return packed if isinstance(operand, tuple) else packed[0]


def associative_scan(
    operand: Any, axis: Any, combine_fn: Callable[..., Any], reverse: Any = False, **_options: Any
) -> Any:
    """As tl.associative_scan: as many steps as the length has bits, each combining with the element 1, 2, 4… before."""
    axis, reverse = tl.core._unwrap_if_constexpr(axis), bool(tl.core._unwrap_if_constexpr(reverse))
    tensors = operand if isinstance(operand, tuple) else (operand,)
    dtypes = [t.dtype for t in tensors]
    data = _together([t.handle.data for t in tensors])
    axis = axis % (data[0].ndim - 1) + 1
    arrays = [np.moveaxis(each, axis, 0) for each in data]
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
    """The function's results for arrays whose first axis is the reduced one and whose second is the programs'."""
    shape = left[0].shape
    sides = [
        _tensor(np.moveaxis(array, 1, 0), dtype)
        for array, dtype in zip((*left, *right), (*dtypes, *dtypes), strict=True)
    ]
    found = combine_fn(*sides)
    found = found if isinstance(found, tuple) else (found,)
    return [
        np.broadcast_to(np.moveaxis(each.handle.data, 0, 1), shape).astype(stored(dtype), copy=False)
        for each, dtype in zip(found, dtypes, strict=True)
    ]


def _together(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """As many programs in each."""
    count = max(map(len, arrays))
    return [np.broadcast_to(array, (count, *array.shape[1:])) for array in arrays]


def _tensor(array: np.ndarray, dtype: Any) -> Any:
    shape = list(array.shape[1:])
    return tl.core.tensor(TensorHandle(array, dtype), tl.block_type(dtype, shape) if shape else dtype)
