"""Cases of one function, and their numerics checked."""

from __future__ import annotations

import pytest

from conformance.cases.case import case
from conformance.numerics.check import NumericsError, check_numerics


def case_of(fn, **declared):
    fn.__name__ = f"test_{fn.__name__.removeprefix('test_')}"
    (only,) = case(**declared)(fn).cases
    return only


def fails_with(a_case, compiled, *texts):
    with pytest.raises(NumericsError) as caught:
        check_numerics(a_case, compiled, "cpu")
    for text in texts:
        assert text in str(caught.value), str(caught.value)
