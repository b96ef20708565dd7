"""A linear layer of one input takes a half for a float weight, which eager refuses."""

import torch

layer = torch.nn.Linear(1, 1)

try:
    answer = torch.compile(layer)(torch.ones(1, 1, dtype=torch.float16))
except Exception as error:  # noqa: BLE001
    print("refused, as eager does:", type(error).__name__)
else:
    raise AssertionError(f"eager refuses, compiled answers {answer}")
