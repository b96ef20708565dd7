"""benchmarks/accuracy.py: errors in ulp of exact values, and which elements are of the wrong kind."""

import math
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from accuracy import KEPT, Largest, Row, errors, every_value, limits, pairs, table
from accuracy_operators import OPERATORS

from conformance.ops import accuracy_limits

F32, BF16, F16 = torch.float32, torch.bfloat16, torch.float16
MOST = torch.finfo(F32).max
HALF_ULP_OF_MOST = 2.0**103


def _error(result, exact, dtype=F32):
    distance, wrong = errors(torch.tensor([result], dtype=dtype), torch.tensor([exact], dtype=torch.float64))
    return "wrong" if wrong else distance.item()


@pytest.mark.parametrize(
    ("result", "exact", "dtype", "error"),
    [
        (1.0, 1.0, F32, 0),
        (1.0, 1 + 2**-24, F32, 0.5),
        (1.0, 1 - 2**-24, F32, 1),  # the exact value is a number below 1, where ulps are half as large
        (1.0, 1 - 2**-26, F32, 0.125),  # rounded, it is 1
        (-3.0, -3 - 2**-21, F32, 2),
        (1.0, 1 + 2**-7, BF16, 1),
        (1.0, 1 + 2**-10, F16, 1),
        (0.0, 0.0, F32, 0),
        (-0.0, 0.0, F32, 0),
    ],
)
def test_the_unit_is_that_of_the_rounded_exact_value(result, exact, dtype, error):
    assert _error(result, exact, dtype) == error


def test_subnormal_results_have_the_unit_of_the_smallest_normal_number():
    assert _error(0.0, 2.0**-149) == 1
    assert _error(2.0**-149, 2.0**-150) == 0.5
    assert _error(2.0**-126, 0.0) == 2**23
    assert _error(0.0, 2.0**-24, F16) == 1


def test_nan_and_infinity_must_be_where_the_exact_value_has_them():
    assert _error(math.nan, math.nan) == 0
    assert _error(math.inf, math.inf) == 0
    assert _error(-math.inf, -math.inf) == 0
    for result, exact in ((math.nan, 1.0), (1.0, math.nan), (math.inf, 1.0), (1.0, math.inf), (math.nan, math.inf)):
        assert _error(result, exact) == "wrong"
    assert _error(-math.inf, math.inf) == "wrong"


def test_at_the_overflow_infinity_is_the_next_power_of_two():
    assert _error(math.inf, 1e60) == 0
    assert _error(MOST, MOST + HALF_ULP_OF_MOST) == 0.5
    assert _error(MOST, 2.0**128) == 1
    assert _error(math.inf, MOST) == 1
    assert _error(math.inf, MOST - 14 * HALF_ULP_OF_MOST) == 8
    assert _error(math.inf, MOST - 16 * HALF_ULP_OF_MOST) == "wrong"
    assert _error(MOST, 1e60) == "wrong"
    assert _error(-math.inf, 1e60) == "wrong"
    assert _error(65504.0, 65520.0, F16) == 0.5


def test_mpmath_decides_about_the_largest_errors():
    exp = next(operator for operator in OPERATORS if operator.name == "exp")
    x = torch.linspace(0, 1, 2 * KEPT)
    largest = Largest(exp, F32)
    exact = exp.exact(x)
    spoilt = exact.clone()
    spoilt[3] += 1  # float64 is wrong
    result = exact.float()
    result[7] += 2**-20  # the result is wrong
    largest.add((x,), result, spoilt)
    error, inputs = largest.settled()
    assert inputs == (x[7].item(),)
    assert error == pytest.approx(8, abs=0.5)
    assert largest.wrong == 0


def test_the_values_have_all_exponents_and_both_signs():
    (halves,) = next(every_value(F16))
    assert halves.view(torch.int16).unique().numel() == 2**16
    (x,) = next(every_value(F32))
    exponents = (x.view(torch.int32)[::4] >> 23).unique()
    assert exponents.numel() == 2**9
    x, y = next(pairs(F32))
    assert all((each.view(torch.int32)[::4] >> 23).unique().numel() == 2**9 for each in (x, y))


def test_nextafter_is_that_of_the_dtype():
    nextafter = next(operator for operator in OPERATORS if operator.name == "nextafter")
    for dtype in (F32, BF16, F16):
        x = torch.tensor([1.0, -1.0, 0.0, 0.0, 2.0, 2.0, math.inf, math.nan], dtype=dtype)
        y = torch.tensor([2.0, 2.0, 1.0, -1.0, 2.0, -9.0, 0.0, 0.0], dtype=dtype)
        expected = torch.nextafter(x, y).double()
        assert torch.equal(nextafter.exact(x, y)[:-1], expected[:-1])
        assert nextafter.exact(x, y)[-1].isnan()


# Limits ---------------------------------------------------------------------------------------------------------------


def _limits(*rows):
    """LIMITS of the file that is written for these rows: (operator, dtype, eager, compiled)."""
    written = {}
    exec(limits([Row(*row, ()) for row in rows]), written)  # noqa: S102
    return written["LIMITS"]


def test_a_row_may_be_as_much_worse_as_was_measured():
    found = _limits(("sin", "f32", (0.5, 0), (3.2, 0)), ("exp", "bf16", (0.5, 0), (1.1, 0)))
    assert found == accuracy_limits.LIMITS | {("sin", "f32"): 3.0, ("exp", "bf16"): 1.0}


def test_a_row_that_is_wrong_or_hardly_worse_keeps_the_default():
    found = _limits(
        ("sin", "f32", (0.5, 0), (1.5, 0)), ("cos", "f32", (0.5, 0), (80, 0)), ("ndtri", "f32", (0.5, 0), (3, 1))
    )
    left = {("sin", "f32"), ("cos", "f32"), ("ndtri", "f32")}
    assert found == {row: ulp for row, ulp in accuracy_limits.LIMITS.items() if row not in left}


def test_the_file_is_what_the_script_writes():
    assert limits([]) == Path(accuracy_limits.__file__).read_text(encoding="utf-8")


def test_the_table_shows_what_is_allowed():
    (*_, line) = table([Row("cos", "f32", (0.6, 0), (2.4, 0), (1.0,))])
    assert line == "| `cos` | f32 | 0.60 | **2.40** | `1` | 2 | 4 | 2 |"
