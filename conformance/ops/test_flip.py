"""flip: reverse a tensor along dimensions; torchvision's horizontal and vertical flips of an image."""

from expecttest import assert_expected_inline

from conformance import case, explanation, image, references, tensor

DTYPES = ["u8", "f32", "bf16", "i16"]
LAYOUTS = ["contiguous", "channels_last", "sliced"]

#: The dtype's width and the strides decide together how a loop goes through rows: all combinations of both, and of
#: both sizes with each layout.
ALSO = [
    *({"x.dtype": dtype, "x.layout": layout} for dtype in DTYPES[1:] for layout in LAYOUTS[1:]),
    *({"x.size": 256, "x.layout": layout} for layout in LAYOUTS[1:]),
]

ONE_KERNEL = {"kernels": 1, "fallbacks": [], "extern": []}

#: Not for channels-last: there a vector holds the three channels of one pixel, or with 512 bits nothing.
REVERSED = {
    f"cpu {layout}": {"vectorised": "yes", "judgement": "a row can be loaded as vectors, and each vector reversed"}
    for layout in ("contiguous", "sliced")
}


@case(
    x=image(3, size=[224, 256], dtype=DTYPES, layout=LAYOUTS),
    vary="one_at_a_time",
    also=ALSO,
    require={"all": ONE_KERNEL},
    missed=REVERSED,
    numerics={"exact": True},
)
def test_hflip(x):
    return x.flip(-1)


@case(
    x=image(3, size=[224, 256], dtype=DTYPES, layout=LAYOUTS),
    vary="one_at_a_time",
    also=ALSO,
    require={
        "all": ONE_KERNEL,
        "cpu u8": {"vectorised": "yes"},
        "cpu f32": {"vectorised": "yes"},
        "cpu bf16": {"vectorised": "yes"},
    },
    missed={
        "cpu i16": {"vectorised": "yes", "judgement": "whole rows are copied, and vectors of 16-bit integers exist"}
    },
    numerics={"exact": True},
)
def test_vflip(x):
    return x.flip(-2)


@case(
    x=image(3, size=[224, 256], dtype=DTYPES, layout=LAYOUTS),
    vary="one_at_a_time",
    also=ALSO,
    require={"all": ONE_KERNEL},
    missed=REVERSED,
    numerics={"exact": True},
)
def test_both(x):
    return x.flip(-1, -2)


@case(
    x=tensor(1, 3, 24, 30, dtype=["f32", "bf16"], layout=LAYOUTS),
    dims={"horizontal": (-1,), "vertical": (-2,), "both": (-1, -2)},
    grad=True,
    require={"all": {"kernels": 2, "fallbacks": [], "graph_breaks": 0}},
    numerics={"exact": True},
)
def test_backward(x, dims):
    return x.flip(dims)


@case(
    x=image(3, dtype="f32"),
    grad=True,
    dynamic=[False, True],
    require={"all": {"kernels": 2, "fallbacks": [], "graph_breaks": 0}},  # one for the forward, one for the backward
    missed={"cpu": REVERSED["cpu contiguous"]},
    numerics={"exact": True},
)
def test_hflip_backward(x):
    return x.flip(-1)


def test_story_why_is_the_uint8_flip_not_vectorised():
    flip = explanation(test_hflip, "224-u8-contiguous", target="cpu_avx512")
    assert_expected_inline(
        flip.facts,
        """\
kernels       1: flip (pointwise 672x224, parallel)
vectorised    no: load index 224*x0 - x1 + 223 is not contiguous in x1 (stride -1), 1 of 2 operations
extern        none
fallbacks     none
patterns      none
unfused       none
bytes         150528 read, 150528 written: the least
buffers       1 allocated
graph_breaks  none""",
    )


@case(
    x=tensor(5, 9, 17, dtype=["f64", "i64", "f16", "bool"]),
    require={"all": ONE_KERNEL},
    numerics={"exact": True},
)
def test_dtypes(x):
    return x.flip(0, -1)


test_references = references(test_dtypes, test_hflip_backward, test_backward)
