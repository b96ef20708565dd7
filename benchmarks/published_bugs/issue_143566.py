"""A shift to the left by as many bits as the type has, or more, is not 0."""

import torch


def shift(x, bits):
    return torch.bitwise_left_shift(x, bits)


for size in (1, 16):
    x = torch.tensor([1000, -5, 77] * size, dtype=torch.int64)
    bits = torch.tensor([64, 65, 100] * size, dtype=torch.int64)
    torch.testing.assert_close(torch.compile(shift)(x, bits), shift(x, bits))
