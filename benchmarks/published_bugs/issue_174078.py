"""Eager's random numbers are asked for, but the mask of a dropout is drawn in another layout."""

import torch
from torch._inductor import config

config.fallback_random = True


def dropped(x):
    return torch.nn.functional.dropout(x.t().contiguous())


x = torch.arange(1.0, 10.0, dtype=torch.float64).reshape(3, 3)
torch.manual_seed(0)
expected = dropped(x)
torch.manual_seed(0)
torch.testing.assert_close(torch.compile(dropped)(x), expected)
