"""The position of the smallest value is counted in the layout before a transposition."""

import torch


def smallest(x):
    x.tan_()
    return x.t().argmin()


x = torch.arange(24.0).reshape(4, 6)
torch.testing.assert_close(torch.compile(smallest)(x.clone()), smallest(x.clone()))
