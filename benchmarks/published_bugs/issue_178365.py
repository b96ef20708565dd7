"""Functions that differ in a default argument only share the first one's compiled code."""

import torch


def make(offset):
    def shift(x, offset=offset):
        return x + offset

    return shift


def call(function, x):
    return function(x)


compiled = torch.compile(call, backend="eager")
x = torch.zeros(2)
for offset in (1, 5):
    torch.testing.assert_close(compiled(make(offset), x), call(make(offset), x))
