"""Which functions are random, and what compiled code's draws must keep."""

import pytest
import torch
from torch.nn import functional

from conformance import case, tensor
from conformance.numerics.float64 import computing_in_float64
from conformance.numerics.random_draws import NarrowDraws, is_random, problems


def case_of(fn, **declared):
    fn.__name__ = f"test_{fn.__name__}"
    (only,) = case(x=tensor(20, 30, low=1, high=2), **declared)(fn).cases
    return only


def drawn(x):
    return functional.dropout(x, 0.5)


def returned(x):
    return torch.where(functional.dropout(x, 0.1) == 0, x, functional.dropout(x, 0.0) * 0.9 / 0.9)


def selected(x):
    return x[torch.rand_like(x) > 0.5]


def summed(x):
    return (x * 2).sum(-1)


def seeded(x):
    return x + torch.rand(x.shape, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(
    ("fn", "random"), [(drawn, True), (selected, True), (returned, False), (summed, False), (seeded, False)]
)
def test_a_function_is_random_if_its_values_depend_on_the_seed(fn, random):
    assert is_random(case_of(fn)) is random


def noise(x):
    return x + torch.randn_like(x)


@pytest.mark.parametrize(
    ("candidate", "found"),
    [
        (lambda x: x + torch.randn_like(x), []),
        (lambda x: x + 1.2 * torch.randn_like(x), ["the mean square", "the mean fourth power"]),
        (lambda x: x + 0.2 + torch.randn_like(x), ["the mean", "the mean square", "the mean fourth power"]),
        (lambda x: x + seeded(torch.zeros_like(x)), ["the same numbers"]),
        (lambda x: x + torch.randn(x.shape[-1]), ["elements share"]),
    ],
)
def test_distribution(candidate, found):
    texts = problems(case_of(noise), candidate, "cpu")
    assert [text for text in texts if any(each in text for each in found)] == texts
    assert len(texts) == len(found)


@pytest.mark.parametrize("draw", [torch.rand_like, torch.randn_like, torch.bernoulli, torch.Tensor.exponential_])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_float64_draws_the_numbers_of_the_narrow_dtype(draw, dtype):
    x = torch.full((50,), 0.5, dtype=dtype)
    torch.manual_seed(3)
    narrow = draw(x.clone())
    torch.manual_seed(3)
    with computing_in_float64(), NarrowDraws(dtype):
        wide = draw(x.double())
    assert wide.dtype == torch.float64
    assert torch.equal(wide, narrow.double())
