"""Stores values of Triton's dtypes in numpy arrays.

Numpy lacks bf16 and fp8: the arrays store their bits, and the emulation computes with them in float32.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

#: Triton's name of an fp8 dtype → torch's name, and the largest value, at which a device's conversion saturates.
_FP8 = {"fp8e4nv": ("float8_e4m3fn", 448.0), "fp8e5": ("float8_e5m2", 57344.0),
        "fp8e4b8": ("float8_e4m3fnuz", 240.0), "fp8e5b16": ("float8_e5m2fnuz", 57344.0)}  # fmt: skip


@functools.cache
def storage_dtype(dtype: Any) -> np.dtype:
    """The numpy dtype of arrays that store a Triton scalar dtype, or pointers."""
    from triton.runtime.interpreter import _get_np_dtype

    return _get_np_dtype(dtype)


def is_stored_as_bits(dtype: Any) -> bool:
    """Whether numpy lacks the Triton dtype, so that arrays store its bits."""
    return dtype.is_bf16() or dtype.is_fp8()


def decode(data: np.ndarray, dtype: Any) -> np.ndarray:
    """The values of a stored array of the Triton dtype `dtype`: float32 for bf16 and fp8, others unchanged."""
    if data.dtype.kind != "u":
        return data  # such as the result of a comparison
    if dtype.is_bf16():
        return (data.astype(np.uint32) << 16).view(np.float32)
    if dtype.is_fp8():
        return _fp8(data, dtype, widen=True)
    return data


def encode(values: np.ndarray, dtype: Any) -> np.ndarray:
    """Values converted to a stored array of the Triton dtype `dtype`, of the same shape.

    Rounds floats to nearest, ties to even. Converts floats to integers as NVIDIA's GPUs do.
    """
    if dtype.is_bf16():
        return _bfloat16(values)
    if dtype.is_fp8():
        return _fp8(values, dtype, widen=False)
    target = storage_dtype(dtype)
    if target.kind in "iu" and values.dtype.kind == "f":
        return _integer(values, target)
    return values.astype(target)


def _bfloat16(values: np.ndarray) -> np.ndarray:
    single = np.ascontiguousarray(values, dtype=np.float32)
    bits = single.view(np.uint32)
    nearest = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    return np.where(np.isnan(single), np.uint16(0x7FC0), nearest.astype(np.uint16))


def _fp8(values: np.ndarray, dtype: Any, *, widen: bool) -> np.ndarray:
    import torch

    if dtype.name not in _FP8:
        from conformance.capture.emulation.errors import NotEmulatedError

        raise NotEmulatedError(f"torch has no dtype for Triton's {dtype.name}")
    name, largest = _FP8[dtype.name]
    fp8 = getattr(torch, name)
    if widen:
        return torch.from_numpy(np.ascontiguousarray(values)).view(fp8).to(torch.float32).numpy()
    single = np.clip(np.ascontiguousarray(values, dtype=np.float32), -largest, largest)  # keeps NaN
    return torch.from_numpy(np.ascontiguousarray(single)).to(fp8).view(torch.uint8).numpy()


def _integer(values: np.ndarray, target: np.dtype) -> np.ndarray:
    """Truncates towards zero and saturates at 32 or 64 bits. NaN becomes 0.

    An integer of fewer than 32 bits takes the low bits of the 32-bit result.
    """
    wide = target if target.itemsize >= 4 else np.dtype(np.int32)
    limits = np.iinfo(wide)
    values = np.where(np.isnan(values), 0, np.trunc(values.astype(np.float64)))
    above, below = values >= float(limits.max), values <= float(limits.min)
    inside = np.where(above | below, 0, values).astype(wide)
    return np.where(above, limits.max, np.where(below, limits.min, inside)).astype(wide).astype(target)


def round_to_tf32(values: np.ndarray) -> np.ndarray:
    """float32 values, rounded to 10 bits of mantissa, ties away from zero, as cvt.rna.tf32 rounds."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    nearest = ((bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)
    return np.where(np.isfinite(values), nearest, values).astype(np.float32)
