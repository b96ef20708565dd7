"""A module gets another tensor as its cache, and the compiled method writes into the old one."""

import torch


class Cache(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.values = torch.zeros(2)

    def forward(self, x, position):
        self.values[position] = x
        return self.values


def run(compile_it):
    cache = Cache()
    call = torch.compile(cache.forward, backend="eager") if compile_it else cache.forward
    call(torch.tensor([2.0]), torch.tensor([0]))
    cache.values = torch.zeros(2)
    return call(torch.tensor([1.0]), torch.tensor([1]))


torch.testing.assert_close(run(compile_it=True), run(compile_it=False))
