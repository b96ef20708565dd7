"""The position of the largest value skips a nan."""

import torch


def largest(x):
    return torch.argmax(torch.log1p(x))


x = torch.tensor([-2.0, 100.0])
torch.testing.assert_close(torch.compile(largest)(x), largest(x))
