"""softmax: exponentials divided by their sum, and the logarithm of either; along any dimension, masked, scaled."""

import torch

from conformance import case, edges, references, tensor

functional = torch.nn.functional

ALONE = {"fallbacks": [], "extern": [], "graph_breaks": 0}
ONE_KERNEL = ALONE | {"kernels": 1}
VECTORISED = {"vectorised": "yes"}

SOFTMAX = {
    "softmax": functional.softmax,
    "log_softmax": functional.log_softmax,
    "logsumexp": lambda x, dim: x.logsumexp(dim),
}


@case(
    x=tensor(16, 40, dtype=["f32", "f16"], layout=["contiguous", "transposed"]),
    function=SOFTMAX,
    dim={"columns": 0, "rows": 1},
    vary="one_at_a_time",
    require={"all": ONE_KERNEL, "gpu": {"kinds": ["persistent reduction"]}, "cpu": VECTORISED},
)
def test_dimensions(x, function, dim):
    return function(x, dim)


# The classes of an image's pixels.
@case(
    x=tensor(2, 6, 5, 9, layout="channels_last"),
    function={name: SOFTMAX[name] for name in ("softmax", "log_softmax")},
    require={"all": ALONE, "cpu softmax torch>=2.13": VECTORISED},
    missed={
        "cpu log_softmax": VECTORISED | {"judgement": "six channels of 16 pixels can be loaded as a tile and added up"}
    },
)
def test_channels(x, function):
    return function(x, 1)


@case(
    x=tensor(16, 40, dtype="f16"),
    require={"all": ONE_KERNEL, "cpu": VECTORISED},
)
def test_in_float32(x):
    return x.float().log_softmax(-1)


@case(x=tensor(), shape=edges(3, None, sizes=(1, 1025)), require={"all": ALONE})
def test_sizes(x):
    return x.softmax(-1)


@case(
    x=tensor(12, 12),
    function={
        "causal": lambda x: x.masked_fill(torch.ones_like(x, dtype=torch.bool).triu(1), float("-inf")).softmax(-1),
        # a row of which nothing is left is NaN
        "all_masked": lambda x: x.masked_fill(x[:, :1] > 0, float("-inf")).softmax(-1),
        "entropy": lambda x: -(x.softmax(-1) * x.log_softmax(-1)).sum(-1),
    },
    require={"all": ALONE},
)
def test_with_pointwise(x, function):
    return function(x)


@case(
    x=tensor(16, 24),
    function={name: SOFTMAX[name] for name in ("softmax", "log_softmax", "logsumexp")},
    dtype=["f32", "bf16"],
    grad=True,
    vary="one_at_a_time",
    require={"all": ALONE},
)
def test_backward(x, function):
    return function(x, 0)


@case(
    x=tensor(9, 33),
    dynamic=True,
    require={"all": ALONE, "cpu": ONE_KERNEL},
    missed={
        "gpu": {
            "kernels": 1,
            "judgement": "what reduces a column can go on to divide it, as it does for sizes that are known",
        }
    },
)
def test_dynamic(x):
    return x.log_softmax(0)


test_references = references(
    test_dimensions, test_channels, test_in_float32, test_sizes, test_with_pointwise, test_backward
)


# What is known while compiling: rows that are masked as a whole, and values that are missing.
@case(x=tensor(9, 4), fill={"masked": -torch.inf, "missing": torch.nan}, require={"all": ALONE})
def test_of_a_constant(x, fill):
    return x + torch.full((9, 4), fill, device=x.device).softmax(-1)
