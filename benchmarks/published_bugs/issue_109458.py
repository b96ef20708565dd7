"""The default dtype changes between calls, and the compiled function keeps the first."""

import torch


def ones(x):
    return x.to(torch.get_default_dtype())


compiled = torch.compile(ones, backend="eager")
x = torch.ones(2, dtype=torch.int32)
for dtype in (torch.float32, torch.float64):
    torch.set_default_dtype(dtype)
    torch.testing.assert_close(compiled(x), ones(x))
