"""Expanded inputs, which show each element several times: each special value is written once, and the check works."""

import pytest
import torch

from conformance import case, tensor
from conformance.numerics.check import NumericsError, check_numerics


@pytest.fixture(params=[(6, 10), (6, 7, 10)], ids=["rows", "planes"])
def expanded(request):
    @case(x=tensor(*request.param, layout="expanded"))
    def test_double(x):
        return x * 2

    return test_double.cases[0]


def test_what_is_right_passes(expanded):
    check_numerics(expanded, lambda x: x * 2, "cpu")


def test_what_is_special_is_laid_in(expanded):
    with pytest.raises(NumericsError, match=r"special values \(nan, inf, huge\)"):
        check_numerics(expanded, lambda x: torch.nan_to_num(x * 2), "cpu")
