"""An optimizer that a function takes from outside: the advice leads to the functions of torch.optim."""

import torch

from conformance.cases.outside_tensors import advice

PARAMETER = torch.nn.Parameter(torch.ones(4))
OPTIMIZER = torch.optim.Adam([PARAMETER])


def step(g):
    PARAMETER.grad = g
    OPTIMIZER.step()


def test_an_optimizer_from_outside():
    sentence = advice(step, {"g": torch.ones(4)})
    assert sentence.startswith(
        "the function takes OPTIMIZER, a Adam, from outside, whose state stays from call to call"
    )
    assert "call torch.optim.adam.adam(…) instead of step()" in sentence
    assert "steps-of-an-optimizer" in sentence
