"""extremes: the largest and smallest elements, their positions, any and all; of every dtype, layout and dimension."""

import torch

from conformance import case, references, tensor

NO_INT8 = "which int8 NaN and infinity become is not defined, and 127 times the largest number is infinity"
INDUCTOR_ONLY = {"fallbacks": [], "extern": [], "graph_breaks": 0}
ONE_KERNEL = INDUCTOR_ONLY | {"kernels": 1}
VECTORISED = {"vectorised": "yes"}
EXACT = {"exact": True}

FUNCTIONS = {
    "amax": lambda x, dim: x.amax(dim),
    "amin": lambda x, dim: x.amin(dim),
    "max": lambda x, dim: x.max(dim),
    "argmax": lambda x, dim: x.argmax(dim),
    "argmin": lambda x, dim: x.argmin(dim, keepdim=True),
}


@case(
    x=tensor(12, 40, dtype=["f32", "f16", "i16"]),
    function=FUNCTIONS,
    vary="one_at_a_time",
    require={"all": ONE_KERNEL, "cpu f32": VECTORISED, "cpu f16": VECTORISED},
    missed={"cpu i16": VECTORISED | {"judgement": "a vector of i16 can be loaded and compared like a vector of i32"}},
    numerics=EXACT,
)
def test_columns(x, function):
    return function(x, 0)


@case(
    x=tensor(12, 40, layout="transposed"),
    require={"all": ONE_KERNEL},
    numerics=EXACT,
)
def test_layouts(x):
    return x.amax(-1), x.argmin(-1)


# A third of the rows is all 0.
@case(
    x=tensor(12, 40, dtype=["bool", "f32", "u8"], zeros=0.97),
    function={"any": lambda x: x.any(-1), "count_nonzero": lambda x: x.count_nonzero(-1)},
    vary="one_at_a_time",
    require={"all": INDUCTOR_ONLY},
)
def test_any_and_all(x, function):
    return function(x)


@case(x=tensor(12, 40, low=1, high=2, dtype="bool", zeros=0.05), require={"all": INDUCTOR_ONLY})
def test_all(x):
    return x.all(0)


@case(
    x=tensor(shape=[(7, 1), (1, 1025)]),
    require={"all": INDUCTOR_ONLY},
    numerics=EXACT
    | {
        "for": {
            "7x1": {"fill": {"output[2]": "a row has one element"}},
            "1x1025": {"fill": {"output[3]": "one of 1025 numbers is not 0; any_and_all has rows of 0"}},
        }
    },
)
def test_sizes(x):
    return x.amax(-1), x.amin(-1), x.argmax(-1), x.any(-1)


@case(
    x=tensor(16, 20),
    function={
        "amin": lambda x: x.amin(0),
        "largest_of_all": lambda x: x.max(),
    },
    grad=True,
    require={"all": {"graph_breaks": 0, "extern": []}},
)
def test_backward(x, function):
    return function(x)


@case(
    x=tensor(12, 40),
    function={
        "shifted": lambda x: (x - x.amax(-1, keepdim=True)).exp(),
        "quantised": lambda x: torch.round(x * 127 / x.abs().amax(-1, keepdim=True).clamp(min=1e-6)).to(torch.int8),
    },
    require={"all": INDUCTOR_ONLY},
    numerics={"for": {"cpu quantised": {"without": dict.fromkeys(("nan", "inf"), NO_INT8)}}},
)
def test_with_pointwise(x, function):
    return function(x)


@case(x=tensor(9, 33, dtype="bf16"), dynamic=True, require={"all": ONE_KERNEL}, numerics=EXACT)
def test_dynamic(x):
    return x.amax(0), x.argmax(0), x.isnan().any(0)


test_references = references(
    test_columns, test_layouts, test_any_and_all, test_all, test_sizes, test_backward, test_with_pointwise
)
