"""Interpolation to the nearest takes its scale from the argument where the size stays the same."""

import torch


def larger(x):
    return torch.nn.functional.interpolate(x, scale_factor=1.3, mode="nearest")


x = torch.tensor([[[[1.0, 2.0]]]], dtype=torch.float64)
torch.testing.assert_close(torch.compile(larger, backend="aot_eager")(x), larger(x))
