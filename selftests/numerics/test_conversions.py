"""Integers that are made of floating numbers: a rounding may move one, and undefined conversions are named."""

from __future__ import annotations

import pytest
import torch
from checking import case_of, fails_with

from conformance import tensor
from conformance.numerics.check import check_numerics


def quantised(x):
    return (x / 0.11).round().to(torch.int8)


def without_roundings(x):
    return quantised(x.float())


def test_an_integer_may_move_by_one_where_eager_rounds_before_it():
    a_case = case_of(quantised, x=tensor(20, 24, dtype="bf16", low=-12, high=12))
    comparison = check_numerics(a_case, without_roundings, "cpu")
    assert any("integers differ by one, because eager rounds a number" in note for note in comparison.roundings)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda x: quantised(x) + 1,
        lambda x: quantised(x.float()).where(x > 0, 0),
        lambda x: (x.float() / 0.11 + 0.9).floor().to(torch.int8),
    ],
    ids=["one more", "other", "another rounding"],
)
def test_other_differences_are_wrong(wrong):
    a_case = case_of(quantised, x=tensor(20, 24, dtype="bf16", low=-12, high=12))
    fails_with(a_case, wrong, "must be equal bit for bit")


def test_integers_of_integers_may_not_move():
    def function(x):
        return x * 2

    fails_with(case_of(function, x=tensor(40, dtype="i64")), lambda x: x * 2 + 1, "must be equal bit for bit")


def test_a_rounding_that_compiled_leaves_out_is_named():
    def function(x, w):
        return (x @ w).to(torch.bfloat16) + w[0]

    a_case = case_of(function, x=tensor(20, 30), w=tensor(30, 40))
    comparison = check_numerics(a_case, lambda x, w: x @ w + w[0], "cpu")
    assert len(comparison.roundings) == 1
    assert comparison.roundings[0].startswith("output: eager rounds to bfloat16 on the way and compiled does not: ")
    assert comparison.summary()[1] == comparison.roundings[0]
    assert not check_numerics(a_case, function, "cpu").roundings


def to_int(x):
    return x.to(torch.int32)


def test_an_element_with_an_undefined_conversion_is_not_judged():
    saturated = lambda x: x.nan_to_num(1.0).clamp(-1e9, 1e9).to(torch.int32)  # noqa: E731
    comparison = check_numerics(case_of(to_int, x=tensor(40)), saturated, "cpu")
    assert any("elements are not judged: they depend on a number" in n for n in comparison.notes)
    fails_with(case_of(to_int, x=tensor(40)), lambda x: saturated(x) + (x == 6).int(), "edges")


def test_an_undefined_conversion_hides_no_error_in_another_output():
    def function(x):
        return to_int(x.nan_to_num(1.0).clamp(-9, 9)), to_int(x), x * 2

    fails_with(case_of(function, x=tensor(40)), lambda x: (*function(x)[:2], (x * 2).nan_to_num(0.0)), "output[2]")


@pytest.mark.parametrize(
    "made", [lambda x, to: to(x).sum(), lambda x, to: to(x) * x, lambda x, to: to(x) > 0], ids=["sum", "number", "bool"]
)
def test_what_is_made_of_undefined_conversions_is_not_judged(made):
    def function(x):
        return made(x, to_int)

    saturated = lambda x: x.nan_to_num(1.0).clamp(-1e9, 1e9).to(torch.int32)  # noqa: E731
    check_numerics(case_of(function, x=tensor(40)), lambda x: made(x, saturated), "cpu")
