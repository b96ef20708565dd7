"""Sums may be added in another order; a wrong element of a sum is found all the same."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch._higher_order_ops.map import map as mapped

from conformance.cases.tolerance_policy import Policy
from conformance.numerics.comparison import CallComparison, Comparison
from conformance.numerics.outcome import Arguments
from conformance.numerics.summation_error import SummationError

TERMS = 4352


def problems(eager: Callable, candidate: Callable, x: torch.Tensor) -> list[str]:
    arguments = Arguments(kwargs={"x": x})
    call = CallComparison(eager, arguments, "cpu", Policy(), "a_case", Comparison(), "first", layout=False)
    return [problem.text for problem in call.problems(candidate)]


def one_after_the_other(x: torch.Tensor) -> torch.Tensor:
    """The sum over the last dimension, without pairs and without lanes."""
    return torch.from_numpy(np.add.accumulate(x.numpy(), axis=-1, dtype=x.numpy().dtype)[..., -1].copy())


def drawn(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(5), dtype=dtype) + 0.5


def test_another_order_of_a_sum_is_no_error() -> None:
    x = drawn(100, TERMS)
    assert (one_after_the_other(x).double() - x.double().sum(-1)).abs().max() / (TERMS * 1.2e-7) > 4  # beyond the floor
    assert problems(lambda x: x.sum(-1), one_after_the_other, x) == []


def test_so_in_an_operator_that_decomposes_into_sums() -> None:
    x = drawn(TERMS, 8) - 1

    def gradient_of_bias(x):
        mean, rstd, ones = x.mean(-1, keepdim=True), x.std(-1, keepdim=True), torch.ones(8, dtype=x.dtype)
        wanted = [False, False, True]
        return torch.ops.aten.native_layer_norm_backward(x, x, (8,), mean, rstd, ones, ones, wanted)[2]

    assert problems(gradient_of_bias, lambda x: one_after_the_other(x.mT), x) == []


@pytest.mark.parametrize("wrong", [0, TERMS // 2, TERMS - 1])
def test_a_lost_term_is_an_error(wrong: int) -> None:
    def without_one(x):
        kept = x.clone()
        kept[0, wrong] = 0
        return kept.sum(-1)

    assert len(problems(lambda x: x.sum(-1), without_one, drawn(100, TERMS))) == 1


def test_an_error_of_few_ulp_is_one_where_nothing_is_summed() -> None:
    x = drawn(100, TERMS)
    assert len(problems(torch.exp, lambda x: torch.exp(x) * (1 + 16 * 1.2e-7), x)) == 1


def test_sums_in_float64_are_held_to_float64() -> None:
    x = drawn(100, TERMS, dtype=torch.float64)
    assert len(problems(lambda x: x.sum(-1), lambda x: x.float().sum(-1).double(), x)) == 1


def test_a_function_that_compiles_itself_runs_in_eager_and_is_compiled_after_it() -> None:
    compiled = torch.compile(lambda x: x.sum(-1), backend="eager", fullgraph=True)
    x = drawn(100, 64)
    assert len(problems(compiled, lambda x: x.sum(-1) * 1.01, x)) == 1
    assert torch.equal(compiled(x), x.sum(-1))


def test_a_result_of_another_structure_in_eager_moves_nothing() -> None:
    """As of torch's `map`: a tensor of Dynamo, and without it a tuple of rows if they need a gradient."""
    x = drawn(4, 12).requires_grad_()

    def rows(x: torch.Tensor) -> torch.Tensor:
        return mapped(lambda row: row.exp() * 2, x)

    texts = problems(rows, lambda x: x.exp() * 2.01, x)
    assert [text.split(":")[0] for text in texts] == ["output (float32)", "gradient of x (float32)"]
    assert problems(rows, lambda x: x.exp() * 2, x) == []


def test_random_operators_are_not_decomposed() -> None:
    with SummationError(0, 1.0, 1e-7):
        torch.manual_seed(0)
        first = torch.nn.functional.dropout(torch.ones(100))
    torch.manual_seed(0)
    assert torch.equal(first, torch.nn.functional.dropout(torch.ones(100)))
