"""The sine of an arctangent of infinity is a number, where eager has another or nan."""

import torch


def chain(x):
    return torch.sin(torch.atan(x))


x = torch.tensor([float("nan"), float("inf"), 1e30])
torch.testing.assert_close(torch.compile(chain)(x), chain(x), equal_nan=True)
