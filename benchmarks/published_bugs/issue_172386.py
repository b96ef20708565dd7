"""The function that torch.func.vjp answers gives zeros when it is compiled."""

import torch


def squares(x):
    return x**2


_, gradient = torch.func.vjp(squares, torch.tensor([1.0, 2.0, 3.0]))
v = torch.ones(3)
torch.testing.assert_close(torch.compile(gradient)(v), gradient(v))
