"""Bugs of Inductor's Metal that users have published, as cases: each function names its report."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from conformance import case, tensor

NO_OVERFLOW = {"without": {"full_range": "sums of the largest numbers overflow in another order"}}


@case(x=tensor(4, 512), weight=tensor(512), bias=tensor(512), numerics=NO_OVERFLOW)
def test_layer_norm(x, weight, bias):
    """https://github.com/pytorch/pytorch/issues/191976: wrong before 2.13."""
    return F.layer_norm(x, (512,), weight, bias)


@case(x=tensor(16, 8, 4, 4), mean=tensor(8), var=tensor(8, low=0.5, high=2))
def test_running_statistics(x, mean, var):
    """https://github.com/pytorch/pytorch/pull/184328: a barrier was missing before 2.13."""
    return F.batch_norm(x, mean, var, training=True)


@case(a=tensor(32), b=tensor(64), numerics=NO_OVERFLOW)
def test_sum_of_differences(a, b):
    """https://github.com/pytorch/pytorch/issues/170360: twice the right value before 2.11."""
    return (a[:, None] - b[None, :]).sum()


@case(x=tensor(15))
def test_nested_masks(x):
    """https://github.com/pytorch/pytorch/issues/186369: the kernel did not compile before 2.12."""
    places = torch.arange(9, dtype=torch.int32, device=x.device)
    return x + F.pad(F.pad(places, (1, 2), value=3), (2, 1), value=5)


@case(x=tensor(4, 10, 8))
def test_adaptive_max_pool(x):
    """https://github.com/pytorch/pytorch/issues/169738."""
    return F.adaptive_max_pool1d(x, 3)


@case(x=tensor(20, dtype=["f32", "f16"]))
def test_expm1(x):
    """https://github.com/pytorch/pytorch/issues/191038: the sign of -0 is lost."""
    return torch.expm1(x), torch.expm1(x).reciprocal()


@case(x=tensor(3, 40, low=-1000, high=-1, dtype="i64"))
def test_greatest_of_integers(x):
    """https://github.com/pytorch/pytorch/pull/187976: lanes that do not exist count as 0."""
    return x.amax(1)


@case(x=tensor(3, 40, low=1, high=3, dtype="i64"))
def test_product_of_integers(x):
    """The same for a product."""
    return x.prod(1)


@case(x=tensor(3, 64, 40))
def test_place_of_the_greatest(x):
    """https://github.com/pytorch/pytorch/pull/199132 and those before it: the place in a loop over two dimensions."""
    return x.transpose(1, 2).flatten(1).argmax(1)
