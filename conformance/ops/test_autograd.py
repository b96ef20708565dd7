"""autograd: gradients written by hand, checkpoints that compute again in the backward, and detached parts."""

import torch
from torch.utils.checkpoint import checkpoint

from conformance import case, tensor

ONE_GRAPH = {"graph_breaks": 0, "extern": [], "fallbacks": []}


class ClippedSquare(torch.autograd.Function):
    """x² with a clipped gradient, which is not the gradient that autograd would compute."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * (2 * x).clamp(-1, 1)


class StraightThrough(torch.autograd.Function):
    """Rounds; its gradient ignores the rounding."""

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
)
def test_by_hand(x, function):
    return function(x)


# The backward computes the values again, so the forward does not store them: it has one result and one kernel.
@case(
    x=tensor(7, 33),
    y=tensor(7, 33),
    function={
        "pointwise": lambda x, y: checkpoint(lambda x, y: (x.sin() * y).tanh().exp(), x, y, use_reentrant=False),
        "softmax": lambda x, y: checkpoint(lambda x, y: (x * y).softmax(-1), x, y, use_reentrant=False),
    },
    grad=True,
    require={"all": ONE_GRAPH},
)
def test_checkpoint(x, y, function):
    return function(x, y)


@case(
    x=tensor(7, 33),
    y=tensor(7, 33),
    function={
        "detached": lambda x, y: x * y.detach() + y,
        "no_grad": lambda x, y: x * _sin_without_gradient(y) + y,
        "only_one": lambda x, y: (x * 2, y.detach().sin()),
        "twice_used": lambda x, y: x.exp() * x + x * y,
    },
    grad=True,
    require={"all": ONE_GRAPH},
)
def test_cut_off(x, y, function):
    return function(x, y)


def _sin_without_gradient(y):
    with torch.no_grad():
        return y.sin()
