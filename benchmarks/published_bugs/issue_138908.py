"""A store at computed indices, of a sum that reads the same place, is done once for each repeated index."""

import torch


def double_row(index, table):
    index = index + 3
    table[index] += table[index]


index = torch.tensor([[-3, -3]])
table = torch.rand(2, 32)
expected = table.clone()
double_row(index, expected)
torch.compile(double_row, dynamic=True)(index, table)
torch.testing.assert_close(table, expected)
