"""A comparison in which a plain mistake would pass is refused, and says which mistake."""

from __future__ import annotations

import pytest
import torch
from checking import case_of, fails_with

from conformance import tensor
from conformance.cases import run_values
from conformance.cases.run_values import RunValues
from conformance.numerics.check import Observed, check_numerics
from conformance.numerics.comparison import NumericsError


def noisy(x):
    """Float64 sees other values than eager: the noise takes each value's dtype."""
    return x + (x.dtype == torch.float32) * 5 * torch.cos(1e6 * x)


@pytest.mark.parametrize(
    ("fn", "says"),
    [
        (noisy, "this comparison decides nothing: it would pass with twice its values"),
        (lambda x: 1.0 + noisy(x) * 1e-4, "with two elements exchanged"),
        (lambda x: x * 1.001 + (noisy(x) - x) * 1e-3, "with x itself"),
    ],
    ids=["noise", "nearly constant", "nearly the input"],
)
def test_what_would_pass_is_named(fn, says):
    def function(x):
        return fn(x)

    fails_with(case_of(function, x=tensor(8, 50)), function, "this comparison decides nothing", says, "'fill'")


def test_a_function_without_a_result_is_not_compared():
    def function(x):
        x.flip(-1)

    a_case = case_of(function, x=tensor(8, 50))
    with pytest.raises(NumericsError, match="returns nothing and changes no input, so nothing is compared") as raised:
        check_numerics(a_case, function, "cpu")
    assert "write a known failure" not in str(raised.value)


@pytest.mark.parametrize("mode", ["plain", "no_grad"])
@pytest.mark.parametrize("function", [lambda x: x.detach() * 2, lambda x: x > 0], ids=["detached", "a comparison"])
def test_a_backward_that_was_asked_for_and_not_made(function, mode):
    a_case = case_of(function, x=tensor(8, 50), grad=True, mode=mode)
    if mode == "no_grad":
        check_numerics(a_case, function, "cpu")
    else:
        with pytest.raises(NumericsError, match="no result has a gradient, so no backward is compared"):
            check_numerics(a_case, function, "cpu")


def test_a_change_of_an_input_is_compared():
    def function(x):
        x.mul_(2)

    check_numerics(case_of(function, x=tensor(8, 50)), function, "cpu")


def test_a_reason_allows_it():
    def function(x):
        return noisy(x)

    reason = {"fill": {"output": "it is noise"}, "factor": 30, "reason": "measured 30 times eager's error"}
    check_numerics(case_of(function, x=tensor(8, 50), numerics=reason), function, "cpu")


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x.clone(),
        lambda x: x.sum(-1),
        lambda x: (x - x.mean(-1, keepdim=True)).sum(-1),  # the true value is 0
        lambda x: torch.view_as_complex(x.view(4, 25, 2)) * 2,
        lambda x: (x > 0).float(),
        lambda x: x.double() @ x.double().mT,
        lambda x: x.to(torch.float8_e4m3fn),
        lambda x: x[:0],
    ],
    ids=["copy", "sum", "zero", "complex", "steps", "f64", "f8", "empty"],
)
def test_what_decides_is_not_refused(fn):
    def function(x):
        return fn(x)

    fill = {"fill": {"output": "it is empty"}} if not fn(torch.ones(4, 50)).numel() else {}
    check_numerics(case_of(function, x=tensor(4, 50), numerics=fill), function, "cpu")


def test_with_another_seed_it_is_a_note(monkeypatch):
    """Cases declare what holds for the values of the default seed."""

    def function(x):
        return torch.zeros_like(x)

    a_case = case_of(function, x=tensor(8, 50))
    fails_with(a_case, function, "every element is 0.0 in every call")
    monkeypatch.setattr(run_values, "_used", [RunValues(seed=7)])
    observed = Observed()
    check_numerics(a_case, function, "cpu", observed=observed)
    assert any("every element is 0.0 in every call" in note for note in observed.comparison.notes)
