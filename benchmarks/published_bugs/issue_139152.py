"""A parameter takes other data by .data: its version changes, and its gradient fails or is wrong."""

import torch


@torch.no_grad()
def gather(parameter):
    parameter.data = torch.full_like(parameter, 3.0)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(4))

    def forward(self, x):
        squares = self.weight**2
        gather(self.weight)
        return x * squares


def version(call):
    model = Model()
    runner = torch.compile(model, backend="aot_eager") if call else model
    runner(torch.ones(4))
    return model.weight._version  # noqa: SLF001


if version(call=True) != version(call=False):
    raise AssertionError(f"the version is {version(call=True)}")
