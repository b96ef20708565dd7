"""Evaluates the inline assembly that Inductor writes into cuda kernels, by the definitions of the PTX manual.

Inductor uses two instructions, in its arc tangent (torch 2.13 and later). Any other instruction raises
NotEmulatedError with its text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from triton.runtime.interpreter import TensorHandle

from conformance.capture.emulation.errors import NotEmulatedError


@dataclass(frozen=True)
class Results:
    """The results of a call, in the form that Triton's language reads."""

    handles: Sequence[TensorHandle]

    def get_result(self, index: int) -> TensorHandle:  # Triton's name
        return self.handles[index]


def fused_multiply_add(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """The float32 arrays x * y + z, rounded once.

    Adds in float64. Where the sum is not exact, sets its last bit, so that rounding it to float32 is correct.
    """
    product: np.ndarray = np.multiply(x, y, dtype=np.float64)  # exact
    term: np.ndarray = z.astype(np.float64)
    total = product + term
    part = total - product
    rest = (product - (total - part)) + (term - part)  # exactly the rounding error of the sum
    even = (total.view(np.int64) & 1) == 0
    nudged = np.nextafter(total, np.where(rest > 0, np.inf, -np.inf))
    return np.where((rest != 0) & even & np.isfinite(total), nudged, total).astype(np.float32)


def _flush_denormals(values: np.ndarray) -> np.ndarray:
    """The values, with zeros of the same sign instead of denormals."""
    return np.where(np.abs(values) < np.finfo(np.float32).tiny, np.copysign(np.float32(0), values), values)


def _reciprocal(x: np.ndarray) -> np.ndarray:
    """1 / x, rounded to nearest. The device may be 1 ulp off."""
    return _flush_denormals(np.float32(1) / _flush_denormals(x))


#: Instruction → function of float32 arrays. The operands are $0, the result, and $1, $2, … in this order.
INSTRUCTIONS: dict[str, Callable[..., np.ndarray]] = {
    "fma.rn.f32": fused_multiply_add,
    "rcp.approx.ftz.f32": _reciprocal,
}


def evaluate(text: str, arguments: Sequence[TensorHandle], dtype: object) -> Results:
    """The result of one instruction. Raises NotEmulatedError for other assembly.

    `arguments`: float32. `dtype`: Triton's dtype of the result.
    """
    name, _, operands = text.strip().removesuffix(";").partition(" ")
    expected = [f"${number}" for number in range(len(arguments) + 1)]
    if name not in INSTRUCTIONS or [each.strip() for each in operands.split(",")] != expected:
        raise NotEmulatedError(f"inline assembly: {text.strip()}")
    result = INSTRUCTIONS[name](*(each.data for each in arguments))
    return Results([TensorHandle(result.astype(np.float32, copy=False), dtype)])
