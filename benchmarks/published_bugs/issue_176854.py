"""A tensor that is detached in place still says that it needs a gradient."""

import torch


def detached(x):
    y = x * 2
    y.detach_()
    return y + 1, y.requires_grad


x = torch.ones(4, requires_grad=True)
answer, expected = torch.compile(detached, backend="eager")(x), detached(x)
torch.testing.assert_close(answer[0].detach(), expected[0].detach())
if answer[1] != expected[1]:
    raise AssertionError(f"requires_grad is {answer[1]}")
