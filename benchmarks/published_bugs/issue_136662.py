"""Two additions into a column: a gradient inside the compiled function counts one of them only."""

import torch


def loss(x):
    total = torch.zeros_like(x)
    total[:, 1] += x[:, 0].abs()
    total[:, 1] += x[:, 0].abs()
    return total.sum()


def gradient(x):
    return torch.func.grad(loss)(x)


x = torch.tensor([[-1.0, 2.0], [3.0, -4.0]])
torch.testing.assert_close(torch.compile(gradient, fullgraph=True)(x), gradient(x))
