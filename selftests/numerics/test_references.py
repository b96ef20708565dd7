"""References and decompositions are compared with eager and float64, without compiling."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F

from conformance import case, tensor
from conformance.devices.targets import targets
from conformance.harness import quick
from conformance.numerics.check import NumericsError, assert_agrees_with_eager
from conformance.numerics.references import ReferencesError, references
from conformance.numerics.torch_references import ReferenceMissingError, decomposition, python_reference

aten = torch.ops.aten


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_references_and_decompositions_are_held(reduction, dtype):
    x, y = torch.randn(2, 8, 10, generator=torch.Generator().manual_seed(0)).to(dtype)
    x = x.clone().requires_grad_()
    for table in ("inductor", "core"):
        candidate = decomposition(aten.smooth_l1_loss.default, table)
        comparison = assert_agrees_with_eager(candidate, F.smooth_l1_loss, x, y, reduction=reduction)
        assert "gradient of argument 0" in [name for _, name, _ in comparison.measurements]
    assert_agrees_with_eager(python_reference("smooth_l1_loss"), F.smooth_l1_loss, x, y, reduction=reduction)


def test_a_backward_operator_is_held():
    grad, x, y = torch.randn(3, 8, 10, generator=torch.Generator().manual_seed(0))
    backward = aten.smooth_l1_loss_backward
    assert_agrees_with_eager(decomposition(backward.default), backward, grad, x, y, 0, 0.5)
    with pytest.raises(NumericsError, match="candidate disagrees with eager"):
        assert_agrees_with_eager(
            lambda *args: decomposition(backward.default)(*args).neg(), backward, grad, x, y, 0, 0.5
        )


def test_a_candidates_nan_fails():
    with pytest.raises(NumericsError, match="NaN and inf"):
        assert_agrees_with_eager(lambda x: x * float("nan"), torch.exp, torch.ones(3))


def test_given_cotangents_are_used():
    x = torch.ones(3, requires_grad=True)
    zero = torch.zeros(3)
    wrong = lambda x: torch.exp(x) + x - x.detach()  # noqa: E731, its gradient is too large by the cotangent
    assert_agrees_with_eager(wrong, torch.exp, x, grad_outputs=zero)
    with pytest.raises(NumericsError, match="gradient of argument 0"):
        assert_agrees_with_eager(wrong, torch.exp, x)
    with pytest.raises(ValueError, match="zip"):
        assert_agrees_with_eager(torch.exp, torch.exp, x, grad_outputs=[zero, zero])


def test_layout_may_be_left_open():
    x = torch.randn(3, 4)
    transposed = lambda x: x.exp().t().contiguous().t()  # noqa: E731
    assert_agrees_with_eager(transposed, torch.exp, x, layout=False)
    with pytest.raises(NumericsError, match="strides"):
        assert_agrees_with_eager(transposed, torch.exp, x)


def test_what_is_no_reference_says_so():
    with pytest.raises(ReferenceMissingError, match="no Python reference of 'frobnicate'"):
        python_reference("frobnicate")
    with pytest.raises(ReferenceMissingError, match=r"aten.mm.default has no decomposition in the table 'core'"):
        decomposition(aten.mm.default, "core")
    with pytest.raises(ValueError, match="unknown table 'other'"):
        decomposition(aten.mm.default, "other")
    with pytest.raises(TypeError, match="not one overload"):
        decomposition(aten.mm)


def test_quick_compares_the_references_of_the_first_cases():
    @case(x=tensor(3), function={"exp": torch.exp, "sin": torch.sin})
    def test_function(x, function):
        return function(x)

    test = references(test_function, disagree={"aten.sin.default": "no reference of it disagrees"})
    test(partial(quick.first_cases, targets=[targets()["cpu_avx2"]]))
    with pytest.raises(ReferencesError, match=r"disagree names aten\.sin\.default"):
        test(tuple)
