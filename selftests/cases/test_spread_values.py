"""The groups `exponents` and `full_range`: numbers of every exponent, and integers of the whole range."""

from __future__ import annotations

import pytest
import torch

from conformance import case, tensor
from conformance.cases import special_values
from conformance.cases.dtypes import dtype_of
from conformance.cases.spread_values import spread_exponents, uniform_integers

OPEN = (None, None)


def generator():
    return torch.Generator().manual_seed(3)


def groups(**inputs):
    def fn(x):
        return x

    fn.__name__ = "test_identity"
    (only,) = case(**inputs)(fn).cases
    return only.build()["x"], {each.group: each.arguments["x"] for each in special_values.calls(only, {}, ())}


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32", "f64"])
def test_exponents_are_spread_evenly(dtype):
    kind = dtype_of(dtype)
    info = torch.finfo(kind)
    found = spread_exponents(kind, OPEN, 4000, generator()).double()
    assert found.isfinite().all()
    assert (found.abs() >= info.tiny).all()
    powers = torch.frexp(found.abs()).exponent
    counts = torch.bincount(powers - powers.min())
    assert len(counts) >= torch.frexp(torch.tensor(info.max, dtype=torch.float64)).exponent - powers.min()
    assert counts[1:-1].max() <= 2 * counts[1:-1].min() + 2
    assert 0.4 < (found > 0).double().mean() < 0.6


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-1, 1), (2, 1000), (-8, -2), (-3, 0), (0.5, 0.75), (-0.25, 100)])
def test_exponents_keep_to_a_range(low, high):
    found = spread_exponents(torch.float32, (low, high), 300, generator())
    assert ((found >= low) & (found <= high)).all()
    assert len(found) == 300
    assert bool((found < 0).any()) == (low < 0)
    assert bool((found > 0).any()) == (high > 0)
    if low <= 0 < high:
        assert found.abs().min() < 1e-35


@pytest.mark.parametrize(("dtype", "largest"), [("f16", 16.0), ("f32", 2.0**32), ("bf16", 2.0**32), ("f64", 2.0**256)])
def test_a_share_of_the_exponents(dtype, largest):
    found = spread_exponents(dtype_of(dtype), OPEN, 4000, generator(), share=0.25).double().abs()
    assert 0.9 * largest < found.max() <= largest
    assert found.log2().mean() == pytest.approx(0, abs=1)


def test_a_range_of_zero_alone_has_no_exponents():
    assert not spread_exponents(torch.float32, (0, 0), 300, generator()).numel()


@pytest.mark.parametrize("dtype", ["i16", "i32", "i64"])
def test_integers_of_the_whole_range(dtype):
    kind = dtype_of(dtype)
    found = uniform_integers(kind, OPEN, 4000, generator())
    assert (found.dtype, len(found)) == (kind, 4000)
    quarters = torch.bincount(((found >> (8 * kind.itemsize - 2)) + 2).int())
    assert len(quarters) == 4
    assert (quarters > 850).all()


def test_small_integers_and_integers_with_a_range_have_no_such_call():
    for inputs in (tensor(9, dtype="u8"), tensor(9, dtype="i8"), tensor(9, dtype="i64", low=0, high=5)):
        assert "full_range" not in groups(x=inputs)[1]
    assert list(groups(x=tensor(9, dtype="bool"))[1]) == []


@pytest.mark.parametrize(
    ("dtype", "group"), [("f32", "exponents"), ("f32", "full_range"), ("c64", "exponents"), ("i64", "full_range")]
)
@pytest.mark.parametrize("layout", ["contiguous", "transposed", "strided"])
def test_half_of_the_elements_are_drawn(dtype, group, layout):
    ordinary, found = groups(x=tensor(30, 20, dtype=dtype, layout=layout))
    if dtype == "c64":
        ordinary, found[group] = torch.view_as_real(ordinary), torch.view_as_real(found[group])
    assert (ordinary != found[group]).double().mean() == pytest.approx(0.5, abs=0.001)
    assert ordinary.stride() == found[group].stride()


def test_the_whole_range_of_exponents_is_left_out_with_the_largest_numbers():
    def fn(x, index):
        return x[index]

    fn.__name__ = "test_rows"
    (only,) = case(x=tensor(40), index=tensor(40, dtype="i64"))(fn).cases
    found = {each.group: each.arguments for each in special_values.calls(only, {"huge": "its sums overflow"}, ())}
    assert torch.equal(found["full_range"]["x"], only.build()["x"])
    assert found["full_range"]["index"].abs().max() > 2**50
    assert found["exponents"]["x"].abs().max() > 1e8


def test_one_element_is_drawn():
    for shape in ((1,), ()):
        ordinary, found = groups(x=tensor(shape=[shape]))
        assert not torch.equal(ordinary, found["exponents"])
    assert "exponents" not in groups(x=tensor(0))[1]
