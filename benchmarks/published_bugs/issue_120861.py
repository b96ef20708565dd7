"""A list is an argument and a global at once: a later call with another list reads the global."""

import torch

shared = [1, 2, 3]


def last_items(items, x):
    return x + shared[-1] + items[-1]


compiled = torch.compile(last_items, backend="eager", fullgraph=True)
x = torch.zeros(1)
for items in (shared, [3, 2, 1], [7]):
    torch.testing.assert_close(compiled(items, x), last_items(items, x))
