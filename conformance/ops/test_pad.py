"""pad: constant, mirrored, repeated and wrapped borders, in one to three dimensions, and their gradients."""

from torch.nn import functional

from conformance import FLUSHED, case, references, tensor

INDUCTOR_ONLY = {"fallbacks": [], "extern": [], "graph_breaks": 0}
ONE_KERNEL = INDUCTOR_ONLY | {"kernels": 1}
EXACT = {"exact": True}
#: For a combination that only --thorough runs.
STRIDED = {"recompiles": 1, "reason": "Dynamo takes a stride of 2 for the first dimension's size, which is 2 as well"}


@case(
    x=tensor(9, 21, dtype=["bf16", "f16", "i16", "i8", "u8", "bool"]),
    require={"all": ONE_KERNEL},
    numerics=EXACT,
)
def test_constant(x):
    return functional.pad(x, (3, 2, 0, 1), value=1)


CONSTANT = {
    "cut": (-2, -3),
    "cut_and_added": (-2, 5, 3, -1),
}


@case(
    x=tensor(2, 9, 21, layout=["contiguous", "transposed", "sliced", "strided"]),
    padding=CONSTANT,
    dynamic=[False, True],
    vary="one_at_a_time",
    require={"all": INDUCTOR_ONLY},
    numerics=EXACT | {"for": {"strided dynamic": STRIDED}},
)
def test_constant_where(x, padding):
    return functional.pad(x, padding, value=-float("inf"))


@case(
    x=tensor(2, 4, 9, 5),
    layout=["contiguous", "channels_last"],
    require={"all": ONE_KERNEL},
    numerics={"for": {"cuda": FLUSHED}},  # because of the sine
)
def test_constant_after_and_before(x):
    return functional.pad(x.sin(), (1, 1, 1, 1)) * 2


# The function of the 0 that a masked load gives is not the value of the border.
@case(x=tensor(9, 21), require={"all": ONE_KERNEL})
def test_constant_after_a_cosine(x):
    return functional.pad(x.cos(), (3, 2, 0, 1), value=3)


SHAPES = {"1d": (2, 3, 11), "2d": (2, 3, 5, 11), "3d": (1, 2, 4, 5, 7)}
#: Before and after the last dimension, then the one before it, and so on.
BORDERS = (3, 2, 1, 0, 2, 1)
MODES = ["reflect", "replicate", "circular"]

#: Inductor has a lowering for the gradient of reflected borders, but not of repeated ones.
REPLICATED = {
    "fallbacks": [],
    "judgement": "the gradient of reflected borders is a kernel, and this gradient differs only in the index",
}


@case(
    x=tensor(shape={"1d": SHAPES["1d"], "3d": SHAPES["3d"]}),
    padding=["replicate", "reflect", "circular"],
    grad=True,
    vary="one_at_a_time",
    require={"all": INDUCTOR_ONLY}
    | {f"replicate {n}": {"fallbacks": [f"aten.replication_pad{n}_backward"]} for n in ("1d", "3d")},
    missed={"replicate": REPLICATED},
)
def test_dimensions(x, padding):
    return functional.pad(x, BORDERS[: 2 * (x.dim() - 2)], padding)


@case(
    x=tensor(2, 3, 5, 11, layout=["contiguous", "channels_last"]),
    padding=MODES,
    dtype=["f32", "bf16"],
    grad=True,
    vary="one_at_a_time",
    require={"all": INDUCTOR_ONLY, "replicate": {"fallbacks": ["aten.replication_pad2d_backward"]}},
    missed={"replicate": REPLICATED},
)
def test_backward(x, padding):
    return functional.pad(x, BORDERS[:4], padding)


@case(
    x=tensor(3, 5, 11),
    padding=MODES,
    dtype=["bf16", "f64"],
    dynamic=[False, True],
    vary="one_at_a_time",
    require={"all": INDUCTOR_ONLY},
    numerics=EXACT,
)
def test_without_batch(x, padding):
    return functional.pad(x, BORDERS[:4], padding)


@case(
    x=tensor(3, 5, 11),
    padding={"cut": (-1, 2, 3, -2)},
    mode_of=["replicate", "reflect"],
    require={"all": INDUCTOR_ONLY},
    numerics=EXACT,
)
def test_negative(x, padding, mode_of):
    return functional.pad(x, padding, mode_of)


@case(
    x=tensor(2, 3, 40),
    grad=True,
    require={"all": INDUCTOR_ONLY | {"fallbacks": ["aten.replication_pad1d_backward"]}},
    missed={"all": REPLICATED},
)
def test_smoothed(x):
    padded = functional.pad(x, (1, 1), "replicate")
    return (padded[..., :-2] + padded[..., 1:-1] + padded[..., 2:]) / 3


test_references = references(test_constant, test_constant_where, test_without_batch, test_negative)
test_references_backward = references(
    test_dimensions,
    test_backward,
    disagree={
        "aten.reflection_pad2d.default torch<2.13": "its result is contiguous; eager's keeps the layout of the image",
        "aten.reflection_pad2d_backward.default": "its result is contiguous; eager's keeps the layout of the image",
    },
)


# The one element of the border that is read lies before x in memory.
@case(x=tensor(20), checks=["numerics"])
def test_element_of_the_border(x):
    return functional.pad(x, (3, 0))[0] + x


@case(x=tensor(2, 3), checks=["numerics"])
def test_repeated_and_replicated(x):
    return functional.pad(x.repeat(2, 2), (1, 0), "replicate")


@case(x=tensor(2, 3), index=tensor(4, dtype="i64", low=0, high=8), checks=["numerics"])
def test_indexed_reflection(x, index):
    return functional.pad(x.t().reshape(1, -1), (1, 1), "reflect")[:, index]
