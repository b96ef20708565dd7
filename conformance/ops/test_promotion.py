"""promotion: which dtype a result has, and in which dtype it is computed: wrapping, rounding and widening."""

import torch

from conformance import case, tensor

INDUCTOR_ONLY = {"fallbacks": [], "extern": [], "graph_breaks": 0}
EXACT = {"exact": True}
#: For results that are random: only their dtype counts.
NUMBERS = {"fill": {"output": "its values would be random"}}


@case(x=tensor(50, dtype=["i32", "f16"]), y=tensor(50, low=-3, high=4, dtype=["f16", "f32"]))
def test_ldexp(x, y):
    return torch.ldexp(x, y)


@case(
    a=tensor(1, 3, 2),
    b=tensor(1, 2, 2),
    dtype=["i8", "u8", "i64"],
    only={"cpu": "PyTorch multiplies no matrices of integers on a GPU"},
    numerics=EXACT,
)
def test_product_of_integers(a, b):
    return a @ b


# The 8 bits wrap around before they are widened.
@case(x=tensor(100), y=tensor(100), dtype=["u8", "i8"], require={"all": INDUCTOR_ONLY}, numerics=EXACT)
def test_widened_after_wrapping(x, y):
    return (x + x).to(torch.int16), (x * y).to(torch.int64), (-x).to(torch.float32)


@case(x=tensor(7, 4, 1, dtype="i32"), y=tensor(7, 4, 1, dtype="i32"), require={"all": INDUCTOR_ONLY}, numerics=EXACT)
def test_sums_that_wrap(x, y):
    return (x * y).sum(1), (x + y).sum()


@case(x=tensor(100), y=tensor(100, low=0, high=70), dtype=["i8", "u8", "i16", "i32", "i64"], numerics=EXACT)
def test_shift_beyond_the_width(x, y):
    return x << y, x >> y


# Positions are 32-bit numbers in a kernel, but 64-bit numbers in the function.
@case(
    x=tensor(1, dtype="i64", low=1_500_000_000, high=1_600_000_000),
    require={"all": INDUCTOR_ONLY},
    numerics=EXACT,
)
def test_positions_times_a_large_number(x):
    return torch.arange(9, device=x.device) * 1_500_000_000 + x


@case(x=tensor(1, dtype="u8"), require={"all": INDUCTOR_ONLY}, numerics=EXACT)
def test_positions_of_bytes(x):
    positions = torch.arange(5, dtype=torch.uint8, device=x.device)
    return positions * 100 + x, (positions * 100).to(torch.int32) + x


# In eager, each sum is rounded to 16 bits before it is compared.
@case(x=tensor(200, dtype="bf16"), require={"all": INDUCTOR_ONLY}, numerics=EXACT)
def test_compared_after_rounding(x):
    return (x + 1) - 1 == x, x * 3 > x + x + x


@case(
    x=tensor(200),
    to={"f16": torch.float16, "bf16": torch.bfloat16},
    config={"emulated": {"emulate_precision_casts": True}},
    require={"all": INDUCTOR_ONLY},
    numerics=EXACT,
)
def test_casts_that_are_emulated(x, to):
    return x.to(to).float() * 2


@case(
    x=tensor(9, 20, dtype="bool"),
    function={
        "input": lambda x: (x.max(-1).indices, x.min(-1).indices),
        # Each row has one False: eager on a GPU takes any of several.
        "result": lambda x: (x.sum(-1, keepdim=True) != torch.arange(21, device=x.device)).min(-1),
    },
    require={"all": {"graph_breaks": 0}},
    numerics=EXACT | {"for": {"result": {"fill": {"output[0]": "each row has a False; what counts is its index"}}}},
)
def test_first_true(x, function):
    return function(x)


@case(
    x=tensor(1),
    dtype_of={"f64": torch.float64, "f16": torch.float16},
    require={"all": {"graph_breaks": 0}},
    numerics=NUMBERS,
)
def test_dtype_of_normal(x, dtype_of):
    return torch.zeros_like(torch.normal(2.0, 3.0, (5, 7), dtype=dtype_of, device=x.device))


@case(
    x=tensor(50, dtype=["bf16", "i32"]),
    require={"all": {"graph_breaks": 0}},
)
def test_of_numbers(x):
    return torch.where(x > 1, 1.5, x), torch.rsub(x, 2), torch.arange(5, device=x.device) / 2


@case(
    mean=tensor(50, dtype="f16"),
    deviation=tensor(50, low=0.5, high=2),
    require={"all": {"graph_breaks": 0}},
    numerics=NUMBERS | {"without": {"outside": "validation/normal_of_negative_deviation is about the missing check"}},
)
def test_dtype_of_drawn(mean, deviation):
    return torch.zeros_like(torch.normal(mean, deviation))
