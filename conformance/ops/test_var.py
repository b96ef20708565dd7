"""var: variances and deviations, by correction, dimension, dtype and layout, and values normalised by them."""

import torch

from conformance import case, references, tensor

OVERFLOW = {"without": {"huge": "whether a sum of squares overflows depends on its order"}}
SPLIT = "whether a running mean of infinities is NaN or infinite depends on how it is split"
INFINITE = {"without": {"inf": SPLIT}}
OVERFLOW_OR_INFINITE = {"without": OVERFLOW["without"] | INFINITE["without"]}
INDUCTOR_ONLY = {"fallbacks": [], "extern": [], "graph_breaks": 0}
ONE_KERNEL = INDUCTOR_ONLY | {"kernels": 1}


@case(
    x=tensor(12, 40, dtype=["f32", "f16"]),
    correction=[1, 0],
    dim={"columns": 0, "rows": 1, "all": (0, 1)},
    vary="one_at_a_time",
    require={"all": INDUCTOR_ONLY, "columns": ONE_KERNEL, "rows": ONE_KERNEL},
)
def test_std(x, correction, dim):
    return torch.std(x, dim, correction=correction)


@case(
    x=tensor(12, 40),
    function={
        "var_mean": lambda x: torch.stack(torch.var_mean(x, 0)),
        "standardised": lambda x: (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-5),
    },
    grad=True,
    require={"all": INDUCTOR_ONLY},
    numerics=INFINITE | {"for": {"var_mean": OVERFLOW_OR_INFINITE}},
)
def test_functions(x, function):
    return function(x)


# The variance of one element with correction 1 is a division by 0.
@case(
    x=tensor(),
    shape=[(7, 1), (3, 1025)],
    require={"all": INDUCTOR_ONLY},
    numerics={"for": {"cpu": OVERFLOW, "7x1": {"fill": {"output[0]": "the variance of one element is NaN"}}}},
)
def test_sizes(x):
    return x.var(-1), x.var(-1, correction=0)


@case(
    x=tensor(2, 6, 5, 9, layout="channels_last"),
    require={"all": INDUCTOR_ONLY},
    numerics=INFINITE
    | {
        "for": {
            "cpu": {
                "factor": 16,
                "reason": "eager computes the variance of float32 in float64, compiled in float32: measured 8.2 ulp, "
                "9.7 times eager's error",
            }
        }
    },
)
def test_of_channels(x):
    return torch.var_mean(x, (0, 2, 3))


test_references = references(test_std, test_functions, test_sizes, test_of_channels)


# The option leaves out a pass over indices, and changes no result.
@case(x=tensor(1, 2), config={"constant_and_index_propagation": False}, numerics=OVERFLOW, checks=["numerics"])
def test_std_without_propagation(x):
    return x.std(1, correction=0)
