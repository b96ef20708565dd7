"""An addition at indices into a transposed input is lost or lands at other places of the input."""

import torch


def add_columns(x, source, index):
    transposed = x.permute(1, 0)
    transposed.index_add_(0, index, source)
    return transposed


source, index = torch.arange(1.0, 10).reshape(3, 3), torch.tensor([0, 4, 2])
expected_x, x = torch.ones(3, 5), torch.ones(3, 5)
expected = add_columns(expected_x, source, index)
torch.testing.assert_close(torch.compile(add_columns)(x, source, index), expected)
torch.testing.assert_close(x, expected_x)
