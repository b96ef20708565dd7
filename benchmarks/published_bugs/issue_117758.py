"""A forward hook that is registered after the first compiled call does not run."""

import torch

model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
compiled = torch.compile(model, backend="eager")
x = torch.ones(2, 4)
torch.testing.assert_close(compiled(x), model(x))
model[0].register_forward_hook(lambda _module, _inputs, result: result + 100)
torch.testing.assert_close(compiled(x), model(x))
