"""Hooks on saved tensors that are active around a compiled call are not applied as in eager."""

import torch


def product(a, b):
    return a * b


def gradients(function):
    a, b = torch.tensor(1.0, requires_grad=True), torch.tensor(2.0, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: 2 * x):
        result = function(a, b)
    result.backward()
    return a.grad, b.grad


torch.testing.assert_close(gradients(torch.compile(product, backend="aot_eager")), gradients(product))
