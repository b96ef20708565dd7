"""random_order: with fallback_random, eager's generator draws the numbers, in the order of the program."""

import torch

from conformance import case, tensor

functional = torch.nn.functional
#: The answer is the same in every call: it says whether the numbers are as they should be.
ANSWER = {"exact": True, "fill": {"output": "it says whether the numbers are as they should be"}}


# Inductor makes each draw wait for the one before it.
@case(
    x=tensor(40, 50, low=1, high=2),
    drawn={
        "rand_and_randn": lambda x: (torch.rand_like(x) >= 0) & (torch.randn_like(x).abs() < 10),
        "two_bernoulli": lambda x: torch.bernoulli(x, 0.3) * 2 + torch.bernoulli(x, 0.6) != 7,
        "in_place": lambda x: x.clone().bernoulli_(0.3) + torch.rand_like(x) < 2,
    },
    config={"eager_numbers": {"fallback_random": True}},
    require={"all": {"graph_breaks": 0}},
    numerics=ANSWER,
)
def test_draws(x, drawn):
    return drawn(x)


@case(
    x=tensor(40, 50),
    config={"eager_numbers": {"fallback_random": True}},
    only={"cpu": "native_dropout has another kernel on a GPU: it draws nothing for p = 1"},
    numerics={"exact": True},
    checks=["numerics"],
)
def test_drawn_after_dropout_of_all(x):
    return functional.dropout(torch.ones_like(x), 1.0) + torch.rand_like(x)
