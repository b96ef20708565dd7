"""A detached copy that asks for gradients again loses the request."""

import torch


def copies(items):
    return [each.clone().detach().requires_grad_(each.requires_grad) for each in items]


inputs = [torch.rand(2, 3, requires_grad=True)]
expected, answer = copies(inputs), torch.compile(copies, backend="aot_eager")(inputs)
if answer[0].requires_grad != expected[0].requires_grad:
    raise AssertionError(f"requires_grad is {answer[0].requires_grad}")
