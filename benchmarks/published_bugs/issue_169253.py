"""A method appends to a list of its class, and nothing is appended when it is compiled."""

import torch


class Model(torch.nn.Module):
    seen = []  # noqa: RUF012

    def forward(self, x):
        Model.seen.append(x + 1)
        return x * 2


model = Model()
model.forward = torch.compile(model.forward)
for _ in range(2):
    model(torch.ones(2))
if len(Model.seen) != 2:
    raise AssertionError(f"2 calls appended {len(Model.seen)} items")
