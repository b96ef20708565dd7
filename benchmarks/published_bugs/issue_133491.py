"""A custom gradient function changes its input in place: compiled code drops what it marks as dirty."""

import torch


class DoubleInPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x.mul_(2)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(_ctx, gradient):
        return gradient * 2


def run(x):
    y = x.clone()
    z = DoubleInPlace.apply(y)
    return y * 3, z


def gradient(function):
    x = torch.ones(3, requires_grad=True)
    function(x)[0].sum().backward()
    return x.grad


torch.testing.assert_close(gradient(torch.compile(run, backend="aot_eager")), gradient(run))
