"""Inline assembly in interpreted kernels: compares Inductor's instructions with exact arithmetic."""

import math
from fractions import Fraction

import pytest

from conformance.capture.deviceless.prepare import prepare
from conformance.devices import environment

if not environment.triton_version():
    pytest.skip("Triton is not installed: pip install triton", allow_module_level=True)
prepare()

import numpy as np  # noqa: E402 - after prepare()
import triton.language as tl  # noqa: E402
from triton.runtime.interpreter import TensorHandle  # noqa: E402

from conformance.capture.emulation.errors import NotEmulatedError  # noqa: E402
from conformance.capture.emulation.inline_asm import INSTRUCTIONS, evaluate  # noqa: E402


def nearest(exact):
    """The float32 nearest to a fraction, ties to even. Correct in the range of normal numbers."""
    rough = np.float32(float(exact))
    near = [np.nextafter(rough, np.float32(-np.inf)), rough, np.nextafter(rough, np.float32(np.inf))]
    return min(near, key=lambda value: (abs(Fraction(float(value)) - exact), int(value.view(np.uint32)) & 1))


def test_fma_is_rounded_once():
    generator = np.random.default_rng(0)
    x, y = (generator.standard_normal(2000).astype(np.float32) for _ in "xy")
    z = (generator.standard_normal(2000) * 2.0 ** generator.integers(-30, 30, 2000)).astype(np.float32)
    # Rounded to float64, this sum is a tie of float32 and would become 1. The exact sum is no tie.
    hard = [np.float32(v) for v in (1 + 2**-12, 2**-24 * (1 - 2**-12), 1)]
    x, y, z = (np.append(values, value) for values, value in zip((x, y, z), hard, strict=True))
    results = INSTRUCTIONS["fma.rn.f32"](x, y, z)
    expected = [
        nearest(Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))) for a, b, c in zip(x, y, z, strict=True)
    ]
    assert results.tolist() == [float(value) for value in expected]
    with np.errstate(invalid="ignore"):
        assert math.isnan(INSTRUCTIONS["fma.rn.f32"](*np.float32([[math.inf], [0], [1]]))[0])


def test_the_reciprocal_takes_and_gives_no_denormals():
    with np.errstate(divide="ignore"):
        results = INSTRUCTIONS["rcp.approx.ftz.f32"](np.float32([2, -4, 1e-40, -0.0, 3e38, math.inf, math.nan]))
    assert results[:6].tolist() == [0.5, -0.25, math.inf, -math.inf, 0.0, 0.0]
    assert math.isnan(results[6])


@pytest.mark.parametrize(
    "text",
    ["ex2.approx.f32 $0, $1;", "rcp.approx.ftz.f32 $1, $0;", "rcp.approx.ftz.f32 $0, $1; mov.b32 $0, $1;"],
)
def test_another_instruction_is_named(text):
    argument = TensorHandle(np.ones(1, np.float32), tl.float32)
    with pytest.raises(NotEmulatedError, match="inline assembly: ") as raised:
        evaluate(text, [argument], tl.float32)
    assert text in str(raised.value)
