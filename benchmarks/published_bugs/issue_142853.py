"""Eager's random numbers are asked for, but dropout of whole channels draws others."""

import torch
from torch._inductor import config

config.fallback_random = True
dropout = torch.nn.Dropout2d(0.5)


def dropped(x):
    return dropout(x)


x = torch.ones(1, 32, 4, 4)
torch.manual_seed(0)
expected = dropped(x)
torch.manual_seed(0)
torch.testing.assert_close(torch.compile(dropped)(x), expected)
