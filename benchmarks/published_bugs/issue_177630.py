"""A product of a half and a float matrix, an error in eager, answers a value."""

import torch


def product(x, y):
    return torch.matmul(x, y)


x, y = torch.ones(2, 3, 4, dtype=torch.float16), torch.ones(2, 4, 3)
try:
    answer = torch.compile(product)(x, y)
except RuntimeError as error:
    print("refused, as eager does:", type(error).__name__)
else:
    raise AssertionError(f"eager refuses, compiled answers {answer.dtype}")
