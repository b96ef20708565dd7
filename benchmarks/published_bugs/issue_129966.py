"""A copy under a smaller dtype keeps the number of elements instead of splitting them."""

import torch


def pieces(x):
    return torch.view_copy(x, torch.int8)


x = torch.full((2,), 0x00010203, dtype=torch.int32)
torch.testing.assert_close(torch.compile(pieces)(x), pieces(x))
