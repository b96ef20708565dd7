"""A range of integers between two fractions is rounded after it is divided, not before."""

import torch


def spaced():
    return torch.linspace(4.9, 3, 5, dtype=torch.int64)


torch.testing.assert_close(torch.compile(spaced)(), spaced())
