"""Results are written into tensors of another dtype, which eager refuses."""

import torch


def ranges(x, low, high):
    return torch.aminmax(x, dim=-1, out=(low, high))


x = torch.rand(4, 4)
try:
    torch.compile(ranges)(x, *(torch.empty(4, dtype=torch.float64) for _ in range(2)))
except Exception as error:  # noqa: BLE001
    print("refused, as eager does:", type(error).__name__)
else:
    raise AssertionError("eager refuses, compiled writes")
