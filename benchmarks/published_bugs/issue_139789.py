"""Inputs that overlap run the code that was compiled for inputs that did not."""

import torch


def double_and_add(x, y):
    x.mul_(2)
    return x + y


def overlapping(function):
    base = torch.ones(8)
    return function(base[:4], base[2:6])


compiled = torch.compile(double_and_add, backend="aot_eager")
compiled(torch.ones(4), torch.ones(4))
torch.testing.assert_close(overlapping(compiled), overlapping(double_and_add))
