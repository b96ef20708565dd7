"""shape: elements that move and do not change: cat, transpose, expand, roll, views, resampling, windows."""

import torch

from conformance import case, image, references, tensor

functional = torch.nn.functional

INDUCTOR_ONLY = {"fallbacks": [], "extern": [], "graph_breaks": 0}
ONE_KERNEL = INDUCTOR_ONLY | {"kernels": 1}
EXACT = {"exact": True}


@case(
    x=tensor(5, 7),
    y=tensor(5, 12),
    dtype=["f32", "bf16", "i16", "u8", "bool"],
    dynamic=[False, True],
    vary="one_at_a_time",
    require={"all": ONE_KERNEL, "cpu u8": {"kernels": 0, "fallbacks": ["aten.cat"]}},
    missed={
        "cpu u8": {"fallbacks": [], "judgement": "a kernel of any dtype copies bytes, so one can copy these too"},
        "cpu i16": {"vectorised": "yes", "judgement": "whole rows are copied, and vectors of 16-bit integers exist"},
    },
    numerics=EXACT,
)
def test_cat(x, y):
    return torch.cat([x, y, x], 1)


@case(x=tensor(5, 7), y=tensor(5, 7), require={"all": ONE_KERNEL})
def test_cat_of_results(x, y):
    return torch.cat([x.sin(), y + 1], 0)


@case(x=tensor(5, 7), y=tensor(5, 7), grad=[False, True], require={"forward": ONE_KERNEL, "backward": INDUCTOR_ONLY})
def test_stack(x, y):
    return torch.stack([x, y], -1)


@case(
    x=tensor(33, 70),
    y=tensor(70, 33),
    dtype=["f32", "bf16", "u8"],
    require={"all": ONE_KERNEL, "cpu": {"vectorised": "yes"}},
)
def test_transpose_add(x, y):
    return x.T + y


@case(x=tensor(100), require={"all": ONE_KERNEL})
def test_as_strided(x):
    return torch.as_strided(x, (9, 10), (7, 2), 3) + 1


@case(x=tensor(7, 1, 9), require={"all": INDUCTOR_ONLY, "forward": {"kernels": 1}}, grad=[False, True])
def test_expand(x):
    return x.expand(7, 5, 9) * 2


@case(
    x=image(3, size=20, dtype="f32", layout=["contiguous", "channels_last"]),
    sampling=["nearest", "bilinear", "bicubic"],
    grad=[False, True],
    vary="one_at_a_time",
    require={"forward": ONE_KERNEL, "all": {"graph_breaks": 0}},
    numerics={
        "for": {"cpu bilinear": {"factor": 8, "reason": "the weights of the four pixels are rounded in another order"}}
    },
)
def test_upsample(x, sampling):
    return functional.interpolate(x, scale_factor=2, mode=sampling)


# 9 rows stay 9, and 20 columns become 22.
@case(
    x=tensor(2, 3, 9, 20),
    sampling={"nearest": "nearest", "nearest_exact": "nearest-exact"},
    require={"all": ONE_KERNEL},
    numerics=EXACT,
)
def test_upsample_slightly(x, sampling):
    return functional.interpolate(x, scale_factor=1.1, mode=sampling)


@case(x=image(3, size=20, dtype="u8"), require={"all": ONE_KERNEL}, numerics=EXACT)
def test_upsample_nearest_u8(x):
    return functional.interpolate(x, scale_factor=2, mode="nearest")


@case(x=tensor(2, 3, 9, 11), require={"all": {"graph_breaks": 0, "extern": []}}, grad=[False, True])
def test_unfold_columns(x):
    return functional.unfold(x, (3, 3), padding=1)


@case(x=tensor(6, 35), require={"all": ONE_KERNEL}, numerics=EXACT)
def test_split_and_swap(x):
    first, second = x.split([20, 15], 1)
    return torch.cat([second, first], 1)


@case(
    x=tensor(12, 35),
    shift={"one": 1, "far": -17},
    require={"all": ONE_KERNEL},
    missed={"cpu": {"vectorised": "yes", "judgement": "a rolled row is two contiguous pieces"}},
    numerics=EXACT,
)
def test_roll(x, shift):
    return x.roll(shift, 1)


@case(x=tensor(3, 5), require={"all": INDUCTOR_ONLY, "cpu": {"kernels": 1}}, numerics=EXACT)
def test_repeat_interleave(x):
    return x.repeat_interleave(3, 1), x.repeat(2, 3)


# A view of the input: there is nothing to compute.
@case(x=tensor(6, 8), require={"all": INDUCTOR_ONLY | {"kernels": 0}})
def test_view(x):
    return x.view(8, 6).T[1:]


@case(
    x=tensor(0, 7),
    require={"all": {"graph_breaks": 0}},
    numerics={"fill": {f"output[{number}]": "the input has no elements" for number in range(3)}},
)
def test_empty(x):
    return x * 2 + 1, x.sum(), x.sum(0)


test_references = references(
    test_cat,
    test_stack,
    test_expand,
    test_split_and_swap,
    test_roll,
    test_repeat_interleave,
    test_empty,
)
test_references_of_sampling = references(
    test_upsample,
    test_upsample_slightly,
    test_upsample_nearest_u8,
    test_unfold_columns,
    disagree={
        "aten.upsample_nearest2d.default": "if a size stays, eager copies the elements; the decomposition resamples"
    },
)
