"""autograd: gradients that are written by hand, kernels that are run again in the backward, and what is cut off."""

import torch
from torch.utils.checkpoint import checkpoint

from conformance import case, tensor

ONE_GRAPH = {"graph_breaks": 0, "extern": [], "fallbacks": []}


class ClippedSquare(torch.autograd.Function):
    """x², with a gradient that is clipped: another one than autograd would find."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * (2 * x).clamp(-1, 1)


class StraightThrough(torch.autograd.Function):
    """Rounds, and passes the gradient on as if it had not."""

    @staticmethod
    def forward(_, x, scale):
        return (x * scale).round() / scale

    @staticmethod
    def backward(_, gradient):
        return gradient, None


@case(
    x=tensor(7, 33),
    function={
        "clipped": lambda x: ClippedSquare.apply(x.sin()).exp(),
        "straight_through": lambda x: StraightThrough.apply(x, 4.0) * x,
        "twice": lambda x: ClippedSquare.apply(ClippedSquare.apply(x)),
    },
    grad=True,
    require={"all": ONE_GRAPH},
    numerics={
        "without": {"huge": "squares overflow", "inf": "the gradient of infinity is 0 times infinity, or is not"}
    },
)
def test_by_hand(x, function):
    return function(x)


# What is computed again in the backward is not stored in the forward: one result, one kernel each.
@case(
    x=tensor(7, 33),
    y=tensor(7, 33),
    function={
        "pointwise": lambda x, y: checkpoint(lambda x, y: (x.sin() * y).tanh().exp(), x, y, use_reentrant=False),
        "softmax": lambda x, y: checkpoint(lambda x, y: (x * y).softmax(-1), x, y, use_reentrant=False),
    },
    grad=True,
    require={"all": ONE_GRAPH},
    numerics={"without": {"huge": "products overflow earlier or later, by their order"}},
)
def test_checkpoint(x, y, function):
    return function(x, y)


@case(
    x=tensor(7, 33),
    y=tensor(7, 33),
    function={
        "detached": lambda x, y: x * y.detach() + y,
        "no_grad": lambda x, y: x * _without(y) + y,
        "only_one": lambda x, y: (x * 2, y.detach().sin()),
        "twice_used": lambda x, y: x.exp() * x + x * y,
    },
    grad=True,
    require={"all": ONE_GRAPH},
    numerics={"without": {"huge": "products overflow earlier or later, by their order"}},
)
def test_cut_off(x, y, function):
    return function(x, y)


def _without(y):
    with torch.no_grad():
        return y.sin()
