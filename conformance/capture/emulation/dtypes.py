"""Values of Triton's types in numpy: bf16 and fp8, which numpy lacks, are kept as bits and computed in float32."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

#: fp8 by Triton's name: torch's name, and the largest value, to which a device's conversion saturates.
_FP8 = {"fp8e4nv": ("float8_e4m3fn", 448.0), "fp8e5": ("float8_e5m2", 57344.0),
        "fp8e4b8": ("float8_e4m3fnuz", 240.0), "fp8e5b16": ("float8_e5m2fnuz", 57344.0)}  # fmt: skip


@functools.cache
def stored(dtype: Any) -> np.dtype:
    """The numpy dtype that values of a Triton scalar type (or pointers) are kept in."""
    from triton.runtime.interpreter import _get_np_dtype

    return _get_np_dtype(dtype)


def is_bits(dtype: Any) -> bool:
    """Whether numpy has no such type, so that values are kept as their bits."""
    return dtype.is_bf16() or dtype.is_fp8()


def number(data: np.ndarray, dtype: Any) -> np.ndarray:
    """Values to compute with: float32 for bf16 and fp8, others as they are."""
    if data.dtype.kind != "u":
        return data  # the result of a comparison, say
    if dtype.is_bf16():
        return (data.astype(np.uint32) << 16).view(np.float32)
    if dtype.is_fp8():
        return _fp8(data, dtype, widen=True)
    return data


def rounded(values: np.ndarray, dtype: Any) -> np.ndarray:
    """Numbers in the array that keeps `dtype`: floats to nearest even, floats to integers as NVIDIA's gpus do."""
    if dtype.is_bf16():
        return _bfloat16(values)
    if dtype.is_fp8():
        return _fp8(values, dtype, widen=False)
    target = stored(dtype)
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

        raise NotEmulatedError(f"{dtype.name} has no like in torch")
    name, largest = _FP8[dtype.name]
    kept = getattr(torch, name)
    if widen:
        return torch.from_numpy(np.ascontiguousarray(values)).view(kept).to(torch.float32).numpy()
    single = np.clip(np.ascontiguousarray(values, dtype=np.float32), -largest, largest)  # NaN stays
    return torch.from_numpy(np.ascontiguousarray(single)).to(kept).view(torch.uint8).numpy()


def _integer(values: np.ndarray, target: np.dtype) -> np.ndarray:
    """Towards zero, saturating at 32 or 64 bits, NaN to 0; narrower integers take the low bits of 32."""
    wide = target if target.itemsize >= 4 else np.dtype(np.int32)
    limits = np.iinfo(wide)
    values = np.where(np.isnan(values), 0, np.trunc(values.astype(np.float64)))
    above, below = values >= float(limits.max), values <= float(limits.min)
    inside = np.where(above | below, 0, values).astype(wide)
    return np.where(above, limits.max, np.where(below, limits.min, inside)).astype(wide).astype(target)


def tf32(values: np.ndarray) -> np.ndarray:
    """float32 rounded to 10 bits of mantissa, ties away from zero, as cvt.rna.tf32 does."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    nearest = ((bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)
    return np.where(np.isfinite(values), nearest, values).astype(np.float32)
