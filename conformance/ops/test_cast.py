"""cast: conversions to another dtype, and computing with rounded or truncated values."""

import torch

from conformance import case, references, tensor

#: Inductor generates no C++ vector code for 16-bit integers.
INT16 = {"cpu i16": {"vectorised": "yes", "judgement": "every instruction set has vectors of 16-bit integers"}}

ONE_KERNEL = {"kernels": 1, "kinds": ["pointwise"], "fallbacks": [], "extern": [], "graph_breaks": 0}
VECTORISED = {"all": ONE_KERNEL, "cpu": {"vectorised": "yes"}}


def vectorised(*labels):
    """Requirements: one kernel, which is vectorised on cpu for cases with one of these labels."""
    return {"all": ONE_KERNEL} | {f"cpu {label}": {"vectorised": "yes"} for label in labels}


TO = {
    "wide": (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32),
    "bytes": (torch.int8, torch.uint8, torch.bool),
}


# Only values that every dtype can hold: C++ does not define conversions out of range.
@case(
    x=tensor(100, low=0, high=100, zeros=0.2, dtype=["f64", "f16", "bf16", "i64", "i32", "i16", "i8", "u8", "bool"]),
    to=TO,
    vary="one_at_a_time",
    require=vectorised("f64", "f16", "bf16", "i64", "i32", "i8", "u8", "bool"),
    missed=INT16,
    numerics={"exact": True},
)
def test_to(x, to):
    return [x.to(dtype) for dtype in to if dtype != x.dtype]


@case(
    x=tensor(100, low=0, high=100, dtype=["bf16", "u8"]),
    require={"all": ONE_KERNEL},
    missed={"cpu": INT16["cpu i16"]},
    numerics={"exact": True},
)
def test_to_int16(x):
    return x.to(torch.int16)


@case(
    x=tensor(100, dtype=["i64", "i16", "i8", "u8"]),
    require=vectorised("i64", "i8", "u8"),
    missed=INT16,
    numerics={"exact": True},
)
def test_wraps(x):
    return [x.to(dtype) for dtype in (torch.int32, torch.int8, torch.uint8) if dtype != x.dtype]


@case(x=tensor(100, dtype=["i64", "i32"]), require=VECTORISED, numerics={"exact": True})
def test_integers_round(x):
    return [x.to(dtype) for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16)]


# NaN and denormals become True.
@case(x=tensor(100, dtype=["f32", "bf16"]), require=VECTORISED, numerics={"exact": True})
def test_to_bool(x):
    return x.bool(), ~x.bool()


@case(x=tensor(100, dtype=["f64", "f32"]), require=VECTORISED, numerics={"exact": True})
def test_narrowed(x):
    return x.half(), x.bfloat16()


@case(x=tensor(100, dtype=["f16", "bf16"]), require=VECTORISED, numerics={"exact": True})
def test_16_bits(x):
    return x.to(torch.bfloat16 if x.dtype == torch.float16 else torch.float16)


# The first conversion rounds, so Inductor must not remove the two conversions.
@case(x=tensor(100), require=VECTORISED, numerics={"exact": True})
def test_there_and_back(x):
    return x.bfloat16().float()


@case(
    x=tensor(100, low=-100, high=100, dtype="f32"),
    require=VECTORISED,
    numerics={"exact": True},
)
def test_truncated(x):
    return x.int().to(x.dtype), x.long().to(x.dtype), x - x.to(torch.int8)


@case(x=tensor(100, dtype="i64"), require=VECTORISED, numerics={"exact": True})
def test_integers_there_and_back(x):
    return x.int().long(), x.bool().long()


@case(
    x=tensor(12, 40, dtype="bf16", layout=["transposed", "sliced", "strided", "offset", "expanded"]),
    require=vectorised("transposed", "sliced", "offset", "expanded"),
    numerics={"exact": True},
)
def test_layouts(x):
    return x.float()


@case(
    x=tensor(100, dtype=["f32", "f64"]),
    grad=True,
    require={"all": {"fallbacks": [], "extern": [], "graph_breaks": 0}},
)
def test_gradient(x):
    return x.bfloat16() * 0.5


@case(
    x=tensor(100, dtype="bf16"),
    grad=True,
    require={"all": {"fallbacks": [], "extern": [], "graph_breaks": 0}},
)
def test_gradient_of_widened(x):
    return x.float() * 0.5


# The bits of one dtype are read as another dtype.
@case(
    x=tensor(100, dtype="bf16"),
    require={"all": ONE_KERNEL},
    missed={"cpu": INT16["cpu i16"]},
)
def test_bits_of_floats(x):
    return x.view(torch.int16) & 255


@case(x=tensor(100, dtype="i32"), require={"all": ONE_KERNEL}, numerics={"exact": True})
def test_bits_of_integers(x):
    return x.view(torch.float32).abs()


test_references = references(
    test_to, test_to_int16, test_wraps, test_integers_round, test_to_bool, test_narrowed, test_gradient
)
