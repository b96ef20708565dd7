"""Elements that depend on a lost number are not judged; all others are, as strictly as before."""

import math

import pytest
import torch
import torch.nn.functional as F
from checking import case_of

from conformance import tensor
from conformance.numerics.check import NumericsError, check_numerics
from conformance.numerics.random_rounding import RUNS, RandomRounding, doubt

MAX = torch.finfo(torch.float32).max


def rounded_anew(fn, *inputs):
    """The doubt in the result of a function."""
    wide = fn(*(each.double() if each.is_floating_point() else each for each in inputs))
    others = []
    for run in range(len(RUNS)):
        with RandomRounding(run, loses=True):
            others.append(fn(*inputs))
    return doubt(fn(*inputs), others, wide)


LARGE = torch.tensor([1e30, 2.0, -3.0])


@pytest.mark.parametrize(
    ("fn", "inputs", "undecided"),
    [
        (lambda x: (x * x).sqrt(), [LARGE], [True, False, False]),
        (lambda x: 1 / (x * x).sum(), [LARGE], True),
        (lambda x: x * x, [LARGE], [False, False, False]),  # infinite, and nothing else
        (lambda x: 1 / (x * x), [LARGE], [True, False, False]),
        (lambda x: (x * x) > 1, [LARGE], [True, False, False]),
        (lambda x: (x * x).argmax(), [LARGE], True),
        (lambda x: torch.where(x > 1, x, x * x), [LARGE], [False, False, False]),
        (lambda x: x * 2, [LARGE], [False, False, False]),
        (lambda x: F.layer_norm(x, (3,)), [LARGE], [True, True, True]),
        (
            lambda x: F.layer_norm(x, (3,), bias=torch.ones(3, dtype=x.dtype)),
            [torch.stack([LARGE, LARGE / 1e30])],
            [[True] * 3, [False] * 3],
        ),
        (lambda x: x.sum() * torch.ones(2), [torch.tensor([MAX, -MAX, MAX, -MAX])], [True, True]),
        (lambda x: x.var(), [LARGE], True),
        (lambda x: F.layer_norm(x, (3,)), [LARGE.double() * 1e200], [True, True, True]),
        (lambda x: x / x.std(), [LARGE], [True, True, True]),
        (lambda x: (x * 1e20).prod() * 0, [torch.tensor([1e15, 1e-30, 1.0])], True),
        (lambda x: torch.tensor([MAX, MAX, -MAX, -MAX]).mul(x).sum(), [torch.tensor(1.0)], True),
        (lambda x: x.masked_fill(x > 1, -math.inf).exp(), [LARGE], [False, False, False]),
        (lambda x: torch.hypot(x, x), [LARGE], [False, False, False]),
        (lambda x: torch.log(x.abs()), [torch.tensor([0.0, 1e-40, 1.0])], [False, False, False]),
        (lambda x: (x + x.mean() * 0).argmax(), [torch.tensor([1.0, 2.0, 3.0])], False),
    ],
    ids=[
        *("square", "sum", "last", "quotient", "comparison", "index", "other_branch", "in_range", "layer_norm", "row"),
        *("sum_beyond", "variance", "float64", "std"),
        *("product", "order", "mask", "hypot", "pole", "clear_index"),
    ],
)
def test_undecided(fn, inputs, undecided):
    assert rounded_anew(fn, *inputs).undecided.tolist() == undecided


@pytest.mark.parametrize(
    ("fn", "undecided"),
    [
        (lambda x: x.sort().indices, [True, True, True, False]),
        (lambda x: x.sort(stable=True).indices, [False, False, False, False]),
        (lambda x: x.topk(3).indices, [False, True, True]),
        (lambda x: x.sort().values, [False, False, False, False]),
        (lambda x: x.max(-1).indices, False),
    ],
    ids=["sort", "stable", "topk", "values", "max"],
)
def test_which_of_equal_numbers(fn, undecided):
    found = rounded_anew(fn, torch.tensor([1.0, 1.0, 3.0, 1.0]))
    assert found.undecided.tolist() == undecided


def test_what_cancels_spreads():
    found = rounded_anew(lambda x: (x / 3 * 3 - x) * 1e6, torch.linspace(1, 2, 50))
    assert float(found.spread.amax()) > 0.01
    assert not found.undecided.any()


def test_what_is_exact_does_not_move():
    found = rounded_anew(lambda x: (x * 2 - 1).abs().amax(), torch.arange(9.0))
    assert float(found.spread) == 0


def test_a_number_too_small_moves():
    found = rounded_anew(lambda x: 1e-30 / (x * x + 1e-38), torch.tensor([1e-22, 1.0]))
    assert found.spread[0] > 0
    assert float(found.spread[1]) < 1e-36


def normalised(x):
    return (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True) + 1e-5).sqrt()


NORMALISED = case_of(normalised, x=tensor(8, 50), grad=True)


def with_squares_overflowing(x):
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.square().sum(-1, keepdim=True) / 49 + 1e-5).sqrt()


def test_a_block_whose_squares_overflow_is_right():
    comparison = check_numerics(NORMALISED, with_squares_overflowing, "cpu")
    assert any("elements are not judged: they depend on a number" in each for each in comparison.notes)


@pytest.mark.parametrize(
    ("fn", "compiled", "groups"),
    [
        (lambda x: x * x + x.sign(), lambda x: torch.where(x.abs() < 1e-6, x * x, x * x + x.sign()), "exponents"),
        (torch.asinh, lambda x: x.sign() * (x.abs() + (x * x + 1).sqrt()).log(), "full_range"),
        (lambda x: x.relu(), lambda x: x.clamp(0, 1e30), "huge"),
        (lambda x: x * 2, lambda x: (x * 2).clamp(-MAX, MAX), "huge"),
    ],
    ids=["small", "asinh", "clamped", "finite"],
)
def test_errors_beside_lost_numbers_are_found(fn, compiled, groups):
    def function(x):
        return fn(x)

    with pytest.raises(NumericsError) as caught:
        check_numerics(case_of(function, x=tensor(8, 50)), compiled, "cpu")
    assert any(each.call == groups for each in caught.value.problems)
