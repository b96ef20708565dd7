"""A sum of uint8 does not wrap before it is cast to a wider type."""

import torch


def doubled(x):
    return (x + x).to(torch.int16)


x = torch.tensor([200, 3], dtype=torch.uint8)
torch.testing.assert_close(torch.compile(doubled)(x), doubled(x))
