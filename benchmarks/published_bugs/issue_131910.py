"""A negative float that is cast to uint8 becomes 0 in vectorised code, and wraps in eager."""

import torch


def to_byte(x):
    return x.byte()


x = torch.linspace(-3, 3, 20)
torch.testing.assert_close(torch.compile(to_byte)(x), to_byte(x))
