"""A negative index, an error of index_select in eager, counts from the end."""

import torch


def select(x, index):
    return x.index_select(0, index)


try:
    answer = torch.compile(select)(torch.arange(4.0), torch.tensor([0, -1]))
except Exception as error:  # noqa: BLE001
    print("refused, as eager does:", type(error).__name__)
else:
    raise AssertionError(f"eager refuses, compiled answers {answer}")
