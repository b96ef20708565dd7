"""Gradients are enabled inside a function that is called without them: its result needs none."""

import torch


def add_one(x):
    with torch.enable_grad():
        return x + 1


x = torch.zeros(10, requires_grad=True)
with torch.no_grad():
    expected, answer = add_one(x), torch.compile(add_one)(x)
if answer.requires_grad != expected.requires_grad:
    raise AssertionError(f"requires_grad is {answer.requires_grad}")
