"""Where eager or float64 is NaN or infinite: what compiled may be."""

import math

import pytest
import torch

from conformance.cases.tolerance_policy import Policy
from conformance.numerics.measurement import measure


@pytest.mark.parametrize(
    ("eager", "truth", "passes"),
    [
        (-math.inf, math.inf, [math.nan, math.inf, -math.inf]),  # a rounding decides which
        (math.inf, math.nan, [math.nan, math.inf, -math.inf]),
        (math.inf, math.inf, [math.inf]),
        (math.nan, math.nan, [math.nan]),
        (math.inf, 1.0, [math.nan, math.inf, -math.inf, 1.0]),  # eager has overflowed on the way
        (1.0, 1.0, [1.0]),
    ],
)
def test_which_nan_and_infinity_may_stand_for_eagers(eager, truth, passes):
    values = [math.nan, math.inf, -math.inf, 1.0]
    given = torch.tensor(values)
    truths = torch.full((4,), truth, dtype=torch.float64)
    wrong = measure(given, torch.full((4,), eager), truths, Policy(), may_be_exact=False).wrong
    assert [str(value) for value, each in zip(values, wrong.tolist(), strict=True) if not each] == list(
        map(str, passes)
    )
