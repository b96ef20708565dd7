"""sum: sums, means and norms over any dimensions, of every dtype and layout, with arithmetic around them."""

import torch

from conformance import case, edges, references, tensor

functional = torch.nn.functional


INDUCTOR_ONLY = {"fallbacks": [], "extern": [], "graph_breaks": 0}
VECTORISED = {"vectorised": "yes"}
ONE_KERNEL = INDUCTOR_ONLY | {"kernels": 1}
#: A row that fits into a block is reduced at once, without a loop.
PERSISTENT = ONE_KERNEL | {"kinds": ["persistent reduction"]}


@case(
    x=tensor(16, 100, dtype=["f16", "f64", "i16"]),
    require={"all": ONE_KERNEL, "gpu": PERSISTENT, **{f"cpu {dtype}": VECTORISED for dtype in ("f16", "f64")}},
    missed={"cpu i16": VECTORISED | {"judgement": "a vector of i16 can be widened and summed like a vector of u8"}},
)
def test_columns(x):
    return x.sum(0)


@case(
    x=tensor(16, 100, dtype="bf16"),
    function={"mean": lambda x: x.mean(-1), "nansum": lambda x: x.nansum(-1), "nanmean": lambda x: x.nanmean(0)},
    vary="one_at_a_time",
    require={"all": ONE_KERNEL, "gpu": PERSISTENT, "cpu": VECTORISED},
)
def test_mean(x, function):
    return function(x)


# The sum has another dtype than its elements, so that it neither wraps around nor loses digits.
@case(
    x=tensor(16, 100, dtype=["u8", "bf16"]),
    to={"f32": torch.float32, "i32": torch.int32},
    vary="one_at_a_time",
    require={"all": ONE_KERNEL, "gpu": PERSISTENT, "cpu": VECTORISED},
)
def test_as_another_dtype(x, to):
    return x.sum(-1, dtype=to)


@case(
    x=tensor(6, 7, 33, layout=["contiguous", "transposed", "sliced", "expanded"]),
    dim={"middle": 1, "ends": (0, 2)},
    vary="one_at_a_time",
    # on a GPU, seven elements are summed without a loop: that is no reduction
    require={
        "all": ONE_KERNEL,
        "gpu middle": {"kinds": ["pointwise"]},
        "gpu ends": {"kinds": ["persistent reduction"]},
        "cpu contiguous": VECTORISED,
    },
)
def test_dimensions(x, dim):
    return x.mean(dim)


# Pooling over the whole image, and the gradient of a bias.
@case(
    x=tensor(2, 8, 7, 9, layout="channels_last"),
    dim={"image": (2, 3), "all_but_channels": (0, 2, 3)},
    require={"all": ONE_KERNEL, "cpu": VECTORISED},
)
def test_channels_last(x, dim):
    return x.mean(dim), x.sum(dim, keepdim=True)


@case(
    x=tensor(),
    shape=edges(5, None, sizes=(0, 1025)),
    require={"all": INDUCTOR_ONLY},
    numerics={
        "for": {"5x0": {"fill": {f"output[{number}]": "the rows have no elements" for number in range(3)}}},
    },
)
def test_sizes(x):
    return x.sum(-1), x.mean(-1), x.sum()


@case(
    x=tensor(9, 33),
    function={
        "mean_of_all": lambda x: x.mean(),
        "middle": lambda x: x - x.mean(-1, True),
    },
    dynamic=True,
    require={"all": INDUCTOR_ONLY},
)
def test_dynamic(x, function):
    return function(x)


NORMS = {"p2": 2, "p1": 1, "inf": float("inf"), "p0": 0}


@case(
    x=tensor(16, 100, dtype="f32"),
    p=NORMS,
    require={"all": ONE_KERNEL, "gpu": PERSISTENT, "cpu": VECTORISED},
)
def test_norm(x, p):
    return torch.linalg.vector_norm(x, p, dim=-1)


@case(
    x=tensor(16, 20),
    function={
        "sum_twice": lambda x: x.sum(0, keepdim=True) * x.sum(1, keepdim=True),
        "p2": lambda x: torch.linalg.vector_norm(x, 2, dim=-1),
        "inf": lambda x: torch.linalg.vector_norm(x, float("inf"), dim=-1),
    },
    grad=True,
    require={"all": INDUCTOR_ONLY},
)
def test_backward(x, function):
    return function(x)


@case(
    x=tensor(16, 33),
    y=tensor(16, 33),
    function={
        "normalize": lambda x, _: functional.normalize(x, dim=-1),
        "cosine_similarity": lambda x, y: functional.cosine_similarity(x, y, dim=-1),
        "error_of_root_mean_square": lambda x, y: (x - y).pow(2).mean().sqrt(),
    },
    dtype=["f32", "bf16"],
    vary="one_at_a_time",
    require={"all": INDUCTOR_ONLY, "cpu": VECTORISED},
)
def test_with_pointwise(x, y, function):
    return function(x, y)


test_references = references(
    test_columns,
    test_mean,
    test_as_another_dtype,
    test_dimensions,
    test_sizes,
    test_norm,
    test_backward,
    test_with_pointwise,
)
