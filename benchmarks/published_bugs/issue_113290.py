"""requires_grad is switched on and off inside the function: the gradient goes missing."""

import torch


def run(x, scale):
    x.requires_grad = True
    y = x * 2
    x.requires_grad = False
    z = x * 3 * scale * y
    return y, z


def gradient(function):
    x, scale = torch.ones(3), torch.ones(3, requires_grad=True)
    _, z = function(x, scale)
    x.requires_grad = True
    z.sum().backward()
    return x.grad


expected, answer = gradient(run), gradient(torch.compile(run, backend="aot_eager"))
if answer is None:
    raise AssertionError(f"no gradient, eager has {expected}")
torch.testing.assert_close(answer, expected)
