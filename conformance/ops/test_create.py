"""create: tensors made without an input: ranges, constants, identities, masks by position; and those like an input."""

import torch

from conformance import case, references, tensor

functional = torch.nn.functional

INDUCTOR_ONLY = {"fallbacks": [], "extern": [], "graph_breaks": 0}
ONE_KERNEL = INDUCTOR_ONLY | {"kernels": 1}
EXACT = {"exact": True}
#: For a combination that only --thorough runs.
STRIDED = {"recompiles": 1, "reason": "Dynamo takes a stride of 2 for the first dimension's size, which is 2 as well"}

#: test_range returns a result of an input as well, so that the graph is not constant.
RANGES = {
    "integers": lambda where: torch.arange(-3, 40, 2, **where),
    "floats": lambda where: torch.arange(0.5, 4, 0.3, **where),
    "f64": lambda where: torch.arange(0, 3, 0.1, dtype=torch.float64, **where),
    "i16": lambda where: torch.arange(37, dtype=torch.int16, **where),
    "linspace": lambda where: torch.linspace(-1, 2, 23, **where),
    "linspace_i8": lambda where: torch.linspace(-3.5, 100, 7, dtype=torch.int8, **where),
    "linspace_i32": lambda where: torch.linspace(-5, 17, 9, dtype=torch.int32, **where),
}


@case(x=tensor(1), made=RANGES, require={"all": INDUCTOR_ONLY})
def test_range(x, made):
    return made({"device": x.device}), x + 1


CREATED = {
    "eye_bool": lambda x: torch.eye(5, 7, dtype=torch.bool, device=x.device) & (x > 0),
    "causal_mask": lambda x: x.masked_fill(torch.ones(5, 7, device=x.device, dtype=torch.bool).triu(1), -float("inf")),
    "meshgrid": lambda x: torch.meshgrid(x[0], x[:, 0], indexing="xy"),
    "positions": lambda x: torch.arange(5, device=x.device)[:, None] * 7 + torch.arange(7, device=x.device) + x,
    "one_hot": lambda x: functional.one_hot((x > 0).long() * 2, 4),
    "full_u8": lambda x: torch.full((5, 7), 250, dtype=torch.uint8, device=x.device) + x.abs().byte(),
}


# The last element is the end itself, and no sum of rounded steps.
@case(x=tensor(1), require={"all": INDUCTOR_ONLY}, numerics=EXACT)
def test_ends_of_ranges(x):
    ranges = [(4, 0.7), (7, 0.3), (11, 2.2), (50, 3.1), (99, 0.9), (1000, 5.7)]
    return *(torch.linspace(0.1, end, count, device=x.device) >= end for count, end in ranges), x + 1


@case(x=tensor(5, 7, low=-3, high=3), made=CREATED, require={"all": INDUCTOR_ONLY}, numerics=EXACT)
def test_made(x, made):
    return made(x)


# The results have the strides of a dense input (channels-last, transposed). Strided and expanded inputs are not dense.
@case(
    x=tensor(2, 3, 4, 5, layout=["channels_last", "transposed", "strided", "expanded"]),
    dtype=["f32", "bool"],
    dynamic=[False, True],
    vary="one_at_a_time",
    require={"all": INDUCTOR_ONLY},
    numerics=EXACT
    | {
        "fill": {f"output[{number}]": "the function fills it with a number" for number in range(3)},
        "for": {"strided dynamic": STRIDED},
    },
)
def test_like(x):
    return torch.zeros_like(x), torch.full_like(x, 3, dtype=torch.float64), x.new_ones(4, 3)


@case(x=tensor(5, 7, dtype=["f32", "f16", "i32", "bool"]), require={"all": INDUCTOR_ONLY}, numerics=EXACT)
def test_empty_then_filled(x):
    return torch.empty_like(x).copy_(x), x.new_empty(5, 7).copy_(x)


test_references = references(
    test_range,
    test_made,
    test_like,
    disagree={
        "aten.linspace.default": "for integers, eager rounds both ends first, the decomposition only the results",
        "aten.full_like.default torch<2.11": "the decomposition's result is contiguous where eager's is transposed",
    },
)
