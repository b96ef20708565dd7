"""A true division of integers into an integer tensor, an error in eager, is truncated."""

import torch


def quotient(x, y):
    return x.div_(y)


x, y = torch.tensor([0, 7]), torch.tensor([3, 2])
try:
    answer = torch.compile(quotient)(x, y)
except Exception as error:  # noqa: BLE001
    print("refused, as eager does:", type(error).__name__)
else:
    raise AssertionError(f"eager refuses, compiled answers {answer}")
