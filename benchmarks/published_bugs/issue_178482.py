"""torch.empty with an out of another size leaves it at its size."""

import torch


def fresh(out):
    return torch.empty((2, 3), out=out).shape


expected = fresh(torch.empty(1))
answer = torch.compile(fresh, dynamic=True)(torch.empty(1))
if answer != expected:
    raise AssertionError(f"{answer} is not {expected}")
