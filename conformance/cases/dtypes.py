"""The dtypes that a case can name."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

#: Short names of dtypes, as they stand in ids → torch's names.
DTYPES = {
    "f64": "float64",
    "f32": "float32",
    "f16": "float16",
    "bf16": "bfloat16",
    "i64": "int64",
    "i32": "int32",
    "i16": "int16",
    "i8": "int8",
    "u8": "uint8",
    "bool": "bool",
    "c64": "complex64",
    "c128": "complex128",
}

INTEGERS = ("i64", "i32", "i16", "i8", "u8", "bool")
#: every_value() has dtypes of at most so many bytes.
EVERY_VALUE_BYTES = 2
EVERY_VALUE_DTYPES = ("f16", "bf16", "i16", "i8", "u8", "bool")
#: With at least this step, every_value takes these too.
EVERY_VALUE_STEP = 2**16
EVERY_VALUE_WIDE_DTYPES = ("f32", "i32")


def dtype_of(name: str) -> torch.dtype:
    """The torch dtype of a short name. Raises ValueError, which lists the known names."""
    import torch

    if name not in DTYPES:
        raise ValueError(f"unknown dtype {name!r}: known are {', '.join(DTYPES)}")
    return getattr(torch, DTYPES[name])
