"""create: tensors that come of no other: ranges, constants, identities, masks by position, and those like an input."""

import torch

from conformance import case, references, tensor

functional = torch.nn.functional

ALONE = {"fallbacks": [], "extern": [], "graph_breaks": 0}
ONE_KERNEL = ALONE | {"kernels": 1}
EXACT = {"exact": True}
#: A combination of --thorough.
STRIDED = {"recompiles": 1, "reason": "Dynamo takes the 2 among the strides for the first dimension's size, which is 2"}

#: Each is added to a number of the input, so that it is not folded into a constant.
RANGES = {
    "integers": lambda where: torch.arange(-3, 40, 2, **where),
    "floats": lambda where: torch.arange(0.5, 4, 0.3, **where),
    "f64": lambda where: torch.arange(0, 3, 0.1, dtype=torch.float64, **where),
    "i16": lambda where: torch.arange(37, dtype=torch.int16, **where),
    "linspace": lambda where: torch.linspace(-1, 2, 23, **where),
    "linspace_i8": lambda where: torch.linspace(-3.5, 100, 7, dtype=torch.int8, **where),
    "linspace_i32": lambda where: torch.linspace(-5, 17, 9, dtype=torch.int32, **where),
}


@case(x=tensor(1), made=RANGES, require={"all": ALONE})
def test_range(x, made):
    return made({"device": x.device}), x + 1


MADE = {
    "eye_bool": lambda x: torch.eye(5, 7, dtype=torch.bool, device=x.device) & (x > 0),
    "causal_mask": lambda x: x.masked_fill(torch.ones(5, 7, device=x.device, dtype=torch.bool).triu(1), -float("inf")),
    "meshgrid": lambda x: torch.meshgrid(x[0], x[:, 0], indexing="xy"),
    "positions": lambda x: torch.arange(5, device=x.device)[:, None] * 7 + torch.arange(7, device=x.device) + x,
    "one_hot": lambda x: functional.one_hot((x > 0).long() * 2, 4),
    "full_u8": lambda x: torch.full((5, 7), 250, dtype=torch.uint8, device=x.device) + x.abs().byte(),
}


@case(x=tensor(5, 7, low=-3, high=3), made=MADE, require={"all": ALONE}, numerics=EXACT)
def test_made(x, made):
    return made(x)


# Strides are those of the input where it is dense: transposed, channels-last, even expanded, it is not.
@case(
    x=tensor(2, 3, 4, 5, layout=["channels_last", "transposed", "strided", "expanded"]),
    dtype=["f32", "bool"],
    dynamic=[False, True],
    vary="one_at_a_time",
    require={"all": ALONE},
    numerics=EXACT | {"for": {"strided dynamic": STRIDED}},
)
def test_like(x):
    return torch.zeros_like(x), torch.full_like(x, 3, dtype=torch.float64), x.new_ones(4, 3)


test_references = references(
    test_range,
    test_made,
    test_like,
    disagree={"aten.linspace.default": "of integers, eager rounds both ends first, and it only what comes of them"},
)
