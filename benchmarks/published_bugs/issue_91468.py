"""An intermediate result that keeps its gradient has none after a compiled call."""

import torch


def parts(x):
    part = x * 3
    part.retain_grad()
    return part * part, part


def kept_gradient(function):
    result, part = function(torch.tensor([2.0], requires_grad=True))
    result.backward()
    return part.grad


expected = kept_gradient(parts)
answer = kept_gradient(torch.compile(parts, backend="aot_eager"))
if answer is None:
    raise AssertionError(f"no gradient was kept, eager keeps {expected}")
torch.testing.assert_close(answer, expected)
