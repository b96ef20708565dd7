"""A range of int64 times a large float is computed with 32 bits."""

import torch


def scaled():
    return torch.arange(0, 11, dtype=torch.int64) * 1_000_000_000


torch.testing.assert_close(torch.compile(scaled)(), scaled())
