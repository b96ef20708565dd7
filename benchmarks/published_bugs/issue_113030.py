"""A tensor takes another's data, whose own data is replaced then: both lose it."""

import torch


def swap(x, y):
    x.data = y
    y.data = torch.zeros(0)
    return x


def results(function):
    x, y = torch.zeros(6), torch.ones(6)
    function(x, y)
    return x, y


expected, answer = results(swap), results(torch.compile(swap))
torch.testing.assert_close(answer, expected)
