"""The inline assembly that Inductor writes into kernels of cuda, by what PTX's manual says of each instruction.

Inductor's own are those of its arc tangent (torch 2.13 and later); another instruction is reported by its text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from triton.runtime.interpreter import TensorHandle

from conformance.capture.emulation.errors import NotEmulatedError


@dataclass(frozen=True)
class Results:
    """As Triton's language asks a call of assembly for its results."""

    handles: Sequence[TensorHandle]

    def get_result(self, index: int) -> TensorHandle:
        return self.handles[index]


def fused(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """X * y + z of float32, rounded once: the sum in float64, its last bit odd where it is not exact, is rounded so."""
    product, added = np.multiply(x, y, dtype=np.float64), z.astype(np.float64)
    total = product + added
    part = total - product
    rest = (product - (total - part)) + (added - part)  # exactly what the sum left out
    even = (total.view(np.int64) & 1) == 0
    nudged = np.nextafter(total, np.where(rest > 0, np.inf, -np.inf))
    return np.where((rest != 0) & even & np.isfinite(total), nudged, total).astype(np.float32)


def _flushed(values: np.ndarray) -> np.ndarray:
    """Denormals as zeros of their sign."""
    return np.where(np.abs(values) < np.finfo(np.float32).tiny, np.copysign(np.float32(0), values), values)


def _reciprocal(x: np.ndarray) -> np.ndarray:
    """To nearest, where the device may be 1 ulp off."""
    return _flushed(np.float32(1) / _flushed(x))


#: Instruction → function of float32 arrays. Its operands are $0, the result, and $1, $2, … in this order.
INSTRUCTIONS: dict[str, Callable[..., np.ndarray]] = {
    "fma.rn.f32": fused,
    "rcp.approx.ftz.f32": _reciprocal,
}


def computed(text: str, arguments: Sequence[TensorHandle], dtype: object) -> Results:
    """What one instruction gives. Raises NotEmulatedError for any other."""
    name, _, operands = text.strip().removesuffix(";").partition(" ")
    wanted = [f"${number}" for number in range(len(arguments) + 1)]
    if name not in INSTRUCTIONS or [each.strip() for each in operands.split(",")] != wanted:
        raise NotEmulatedError(f"inline assembly: {text.strip()}")
    result = INSTRUCTIONS[name](*(each.data for each in arguments))
    return Results([TensorHandle(result.astype(np.float32, copy=False), dtype)])
