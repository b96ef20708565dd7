"""same_operand: binary operators with one tensor as both operands. A value that is not finite still counts."""

import torch

from conformance import FLUSHED, case, tensor

ONE_KERNEL = {"kernels": 1, "kinds": ["pointwise"], "fallbacks": [], "extern": [], "graph_breaks": 0}

BINARY = {
    "sub": lambda x: x - x,
    "div": lambda x: x / x,
    "floor_divide": lambda x: x // x,
    "remainder": lambda x: x % x,
    "fmod": lambda x: torch.fmod(x, x),
    "pow": lambda x: x**x,
    "atan2": lambda x: torch.atan2(x, x),
    "eq": lambda x: x == x,  # noqa: PLR0124 -- what the case is for
    "maximum": lambda x: torch.maximum(x, x),
}


@case(
    x=tensor(20, 30),
    y=tensor(20, 30),
    function=BINARY,
    require={"all": ONE_KERNEL},
    numerics={"for": {"cuda atan2": FLUSHED}},
)
def test_alone(x, y, function):
    return function(x) + y
