"""Gradients: what a backward returns is compared, with cotangents of several layouts."""

from pathlib import Path

import pytest
import torch
from checking import case_of

import conformance
from conformance import tensor
from conformance.cases.lookup import cases_below
from conformance.cases.tolerance_policy import COTANGENT_CALLS
from conformance.numerics.check import NumericsError, check_numerics
from conformance.numerics.cotangents import random_cotangent
from conformance.settings import CHECKS


def exp(x):
    return torch.exp(x)


def problems(a_case, compiled):
    with pytest.raises(NumericsError) as caught:
        check_numerics(a_case, compiled, "cpu")
    return {(problem.call, problem.tensor, problem.rule) for problem in caught.value.problems}


def exp_with(backward):
    """Exp with another backward: a function of the cotangent and the result."""

    class Exp(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = torch.exp(x)
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, cotangent):
            return backward(cotangent, ctx.saved_tensors[0])

    return lambda x: Exp.apply(x)  # noqa: PLW0108 - check_numerics passes x by name


def permuted(gradient):
    """The same values, in another order in memory."""
    return gradient.movedim(0, -1).contiguous().movedim(-1, 0)


class _Permuted(torch.autograd.Function):
    """The identity, whose gradient has other strides."""

    @staticmethod
    def forward(ctx, x):  # noqa: ARG004
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):  # noqa: ARG004
        other = permuted(gradient)
        return other if other.stride() != gradient.stride() else gradient.contiguous()


def test_other_strides_of_a_gradient():
    a_case = case_of(exp, x=tensor(5, 7), grad=True)
    found = problems(a_case, exp_with(lambda cotangent, y: permuted(cotangent * y)))
    assert found == {(call, "gradient of x", "strides") for call in ("first", "second")}


def test_strides_that_eager_has_for_a_cotangent_that_is_stored_like_the_result():
    """Eager stores the gradient of exp as the cotangent is stored: by rows, or by columns as x and the result are."""
    a_case = case_of(exp, x=tensor(5, 7, layout="transposed"), grad=True)
    comparison = check_numerics(a_case, exp_with(lambda cotangent, y: torch.empty_like(y).copy_(cotangent * y)), "cpu")
    (note,) = {each for each in comparison.notes if "either is right" in each}
    assert note.startswith("gradient of x: strides are (1, 5), eager's are (7, 1)")
    with_gaps = exp_with(lambda cotangent, y: torch.stack([cotangent * y] * 2, 2)[:, :, 0])
    assert problems(a_case, with_gaps) == {(call, "gradient of x", "strides") for call in ("first", "second")}


@pytest.mark.parametrize("shape", [(9,), (5, 7), (2, 5, 7), (2, 3, 5, 7), (2, 2, 3, 5, 7)])
def test_a_backward_that_takes_every_cotangent_for_contiguous(shape):
    """It reads a permuted one in the order of its memory. Nothing else is wrong."""

    def backward(cotangent, y):
        in_memory = cotangent if 0 in cotangent.stride() else cotangent.as_strided(y.shape, y.stride())
        return in_memory * y

    assert problems(case_of(exp, x=tensor(*shape), grad=True), exp_with(backward)) == {
        ("permuted cotangents", "gradient of x", "values")
    }


def test_a_backward_that_takes_a_dimension_of_stride_0_for_one_row():
    def backward(cotangent, y):
        gradient = cotangent * y
        if 0 in cotangent.stride():
            gradient[1:] = 0
        return gradient

    a_case = case_of(exp, x=tensor(5, 7), grad=True)
    assert problems(a_case, exp_with(backward)) == {("expanded cotangents", "gradient of x", "values")}


def test_a_loss_has_no_layouts_of_cotangents():
    def loss(x):
        return x.square().mean()

    comparison = check_numerics(case_of(loss, x=tensor(5, 7), grad=True), loss, "cpu")
    calls = {title for title, _, _ in comparison.measurements}
    assert not calls & set(COTANGENT_CALLS)


@pytest.mark.parametrize("shape", [(), (9,), (5, 7), (2, 3, 5, 7)])
def test_layouts_of_cotangents(shape):
    expanded, others = (random_cotangent(torch.Size(shape), torch.float32, 1, each) for each in COTANGENT_CALLS)
    plain = random_cotangent(torch.Size(shape), torch.float32, 1)
    assert expanded.shape == others.shape == plain.shape
    assert torch.equal(others, plain)
    if shape:
        assert expanded.stride()[0] == 0
        assert others.stride() != plain.stride()


@pytest.mark.long("it computes the gradients of every 7th case that has them")
def test_other_strides_of_each_gradient_of_a_real_case():
    """Planted in every 7th case with gradients: all that have strides to change are found."""
    missed, planted = [], 0
    cases = cases_below([Path(conformance.__file__).parent / "ops"])
    compared = [each for each in cases if each.grad and each.mode == "plain" and "numerics" in (each.checks or CHECKS)]
    for each in compared[::7]:
        names = [name for name, value in each.build(0).items() if _has_gradient_of_several_rows(value)]
        if not names:
            continue

        def compiled(each=each, names=names, **arguments):
            return each.fn(**{n: _Permuted.apply(v) if n in names else v for n, v in arguments.items()})

        planted += 1
        try:
            check_numerics(each, compiled, "cpu")
            missed.append(each.id)
        except NumericsError as error:
            if not any(problem.rule == "strides" and problem.call == "first" for problem in error.problems):
                missed.append(each.id)
    assert planted > 20
    assert not missed


def _has_gradient_of_several_rows(value):
    if not isinstance(value, torch.Tensor) or not value.requires_grad:
        return False
    return value.dim() > 1 and min(value.shape) > 1
