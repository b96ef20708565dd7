"""A hook before the gradient of a module, registered after the first call, does not run."""

import torch

layer = torch.nn.Linear(3, 3, bias=False)
torch.nn.init.eye_(layer.weight)


def run(x):
    return layer(x)


def gradient(function):
    x = torch.ones(3, requires_grad=True)
    function(x).sum().backward()
    return x.grad


compiled = torch.compile(run, backend="aot_eager")
torch.testing.assert_close(gradient(compiled), gradient(run))
layer.register_full_backward_pre_hook(lambda _module, gradients: tuple(each * 2 for each in gradients))
torch.testing.assert_close(gradient(compiled), gradient(run))
