"""softmax: softmax, log_softmax and logsumexp, along any dimension, with masks and arithmetic around them."""

import torch

from conformance import case, edges, references, tensor

functional = torch.nn.functional

NEARLY_ONE = "where an element has nearly the whole sum, its gradient is the difference of two nearly equal numbers"

INDUCTOR_ONLY = {"fallbacks": [], "extern": [], "graph_breaks": 0}
ONE_KERNEL = INDUCTOR_ONLY | {"kernels": 1}
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


# Where all that is summed is masked, the safe form answers 0 instead of NaN.
@case(x=tensor(6, 8), dim={"columns": 0, "rows": 1}, checks=["numerics"])
def test_all_masked(x, dim):
    masked = torch.arange(x.shape[1 - dim], device=x.device) % 3 == 1
    return torch.ops.aten._safe_softmax(x.masked_fill(masked.unsqueeze(dim), -torch.inf), dim)  # noqa: SLF001


# The channels of an image are the classes of its pixels.
@case(
    x=tensor(2, 6, 5, 9, layout="channels_last"),
    function={name: SOFTMAX[name] for name in ("softmax", "log_softmax")},
    require={"all": INDUCTOR_ONLY, "cpu softmax torch>=2.13": VECTORISED},
    missed={
        "cpu log_softmax": VECTORISED | {"judgement": "six channels of 16 pixels can be loaded as a tile and summed"}
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


@case(x=tensor(), shape=edges(3, None, sizes=(1, 1025)), require={"all": INDUCTOR_ONLY})
def test_sizes(x):
    return x.softmax(-1)


@case(
    x=tensor(12, 12),
    function={
        "causal": lambda x: x.masked_fill(torch.ones_like(x, dtype=torch.bool).triu(1), float("-inf")).softmax(-1),
        # a row that is masked as a whole is NaN
        "all_masked": lambda x: x.masked_fill(x[:, :1] > 0, float("-inf")).softmax(-1),
        "entropy": lambda x: -(x.softmax(-1) * x.log_softmax(-1)).sum(-1),
    },
    require={"all": INDUCTOR_ONLY},
)
def test_with_pointwise(x, function):
    return function(x)


@case(
    x=tensor(16, 24),
    function={name: SOFTMAX[name] for name in ("softmax", "log_softmax", "logsumexp")},
    dtype=["f32", "bf16"],
    grad=True,
    vary="one_at_a_time",
    require={"all": INDUCTOR_ONLY},
    numerics={"for": {"softmax": {"factor": 8, "reason": NEARLY_ONE}}},
)
def test_backward(x, function):
    return function(x, 0)


@case(
    x=tensor(9, 33),
    dynamic=True,
    require={"all": INDUCTOR_ONLY, "cpu": ONE_KERNEL},
    missed={
        "gpu": {
            "kernels": 1,
            "judgement": "the kernel that reduces a column can also divide it, as it does for static sizes",
        }
    },
)
def test_dynamic(x):
    return x.log_softmax(0)


test_references = references(
    test_dimensions, test_channels, test_in_float32, test_sizes, test_with_pointwise, test_backward
)


# Values that are known at compile time: masked rows, and rows of NaN.
@case(
    x=tensor(9, 4),
    fill={"masked": -torch.inf, "missing": torch.nan},
    require={"all": INDUCTOR_ONLY},
    numerics={"fill": {"output": "a masked or missing row is NaN"}},
)
def test_of_a_constant(x, fill):
    return x + torch.full((9, 4), fill, device=x.device).softmax(-1)


# Inductor subtracts the maximum before it scales, unless a scaled value overflows: eager then gives NaN.
@case(
    x=tensor(16, 40),
    scaled={
        "product": lambda x: x * 2,
        "negative_product": lambda x: -3 * x,
        "quotient": lambda x: x / 0.5,
        "negative_quotient": lambda x: x / -0.25,
        "by_rows": lambda x: x * (torch.arange(16).to(x).unsqueeze(-1) - 7.5),
    },
    require={"all": INDUCTOR_ONLY},
)
def test_scaled(x, scaled):
    return scaled(x).softmax(-1)
