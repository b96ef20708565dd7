"""data_dependent: positions and sizes that the graph reads from a tensor, so that Inductor has symbols for them."""

import torch
from torch import _check

from conformance import case, tensor

ONE_GRAPH = {"graph_breaks": 0}
SYMBOLS = {"dynamo.capture_scalar_outputs": True, "dynamo.capture_dynamic_output_shape_ops": True}


# Nothing says whether the position is below 0, so the kernel's call computes size and offset when it runs.
@case(
    x=tensor(8, 9),
    places=tensor(2, dtype="i64", low=-4, high=4),
    part={
        "row": lambda x, place: x[place] + 1,
        "until": lambda x, place: x[:place] + 1,
        "from": lambda x, place: x[place:] + 1,
        "columns": lambda x, place: (x * 2)[:, place : place + 3].sum(0),
    },
    config={"symbols": SYMBOLS},
    require={"all": ONE_GRAPH},
)
def test_any_place(x, places, part):
    return part(x, places[1].item())


# The graph checks the number, which then is a size or a position without further questions.
@case(
    x=tensor(8, 9),
    numbers=tensor(2, dtype="i64", low=2, high=7),
    use={
        "row": lambda x, number: (x * 2)[number] + 1,
        "full": lambda x, number: torch.full((number, 4), 2.5, device=x.device) * x[0, :4],
        "arange": lambda x, number: torch.arange(number, device=x.device)[:, None] * x[0],
        "value": lambda x, number: torch.where(x > number, x, 0.5),
    },
    config={"symbols": SYMBOLS},
    require={"all": ONE_GRAPH},
)
def test_checked(x, numbers, use):
    number = numbers[1].item()
    _check(number >= 2)
    _check(number < 8)
    return use(x, number)


@case(x=tensor(8, 9), config={"symbols": SYMBOLS}, require={"all": ONE_GRAPH})
def test_product_of_chosen_rows(x):
    return x[x[:, 0] > 0].exp() @ x.T


@case(
    x=tensor(4, 9),
    counts=tensor(4, dtype="i64", low=0, high=3),
    config={"symbols": SYMBOLS},
    require={"all": ONE_GRAPH},
)
def test_repeat_interleave(x, counts):
    return x.repeat_interleave(counts, 0) + 1
