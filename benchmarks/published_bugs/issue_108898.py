"""A global function is replaced by another, and the compiled function still calls the first."""

import torch


def helper(x):
    return x + 20


def outer(x):
    x = helper(x)

    def add_one(x):
        return x + 1

    return add_one(x)


compiled = torch.compile(outer, fullgraph=True, backend="aot_eager")
x = torch.ones(2)
torch.testing.assert_close(compiled(x), outer(x))
globals()["helper"] = torch.cos
torch.testing.assert_close(compiled(x), outer(x))
