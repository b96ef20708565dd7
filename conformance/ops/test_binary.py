"""binary: elementwise functions of two or three inputs, of one dtype or several."""

import torch

from conformance import FLUSHED, case, references, tensor

#: Inductor generates no C++ vector code for 16-bit integers.
INT16 = {"cpu i16": {"vectorised": "yes", "judgement": "every instruction set has vectors of 16-bit integers"}}

ONE_KERNEL = {"kernels": 1, "kinds": ["pointwise"], "fallbacks": [], "extern": [], "graph_breaks": 0}
VECTORISED = {"all": ONE_KERNEL, "cpu": {"vectorised": "yes"}}
#: Inductor leaves these to eager, so nothing fuses with them.
LOOP = {"all": {"fallbacks": [], "judgement": "it is a short loop for each element, which C++ and Triton can express"}}
FUSED = {
    "without": {"huge": "on a device, the product is fused with the sum, and whether it overflows depends on that"}
}
QUOTIENT = {"without": {"huge": "whether the quotient overflows depends on when it is halved"}}
NO_DENORMALS = "on a device, next to 0 is the smallest normal number: Inductor's settings flush the library's denormals"
DENORMAL_RESULTS = "on a device, Inductor's settings flush denormal results of the library's functions to 0"
WITH_GRADIENT = {"all": {"kernels.backward": 1, "fallbacks": [], "extern": [], "graph_breaks": 0}}


@case(
    x=tensor(100),
    y=tensor(100),
    dtype=["f32", "bf16", "i64", "u8"],
    require=VECTORISED,
)
def test_arithmetic(x, y):
    return torch.sub(x, y, alpha=2), x * y, torch.add(y, x, alpha=3)


@case(x=tensor(100), y=tensor(100), dtype="bf16", require=VECTORISED)
def test_divide(x, y):
    return x / y


@case(x=tensor(100, dtype=["i64", "u8"]), y=tensor(100, low=1, high=100), dtype="i32", require=VECTORISED)
def test_divide_integers(x, y):
    return x / y


@case(x=tensor(100, dtype=["bf16", "i32"]), require=VECTORISED)
def test_numbers(x):
    return x / 3, 3 - x, x * 0.1, x - 1.5


@case(
    x=tensor(100),
    y=tensor(100),
    dtype=["f32", "bf16", "u8"],
    require=VECTORISED,
)
def test_extrema(x, y):
    return torch.maximum(x, y), torch.minimum(x, y)


@case(x=tensor(100), y=tensor(100), dtype="f32", require=VECTORISED)
def test_extrema_of_numbers(x, y):
    return torch.fmax(x, y), torch.fmin(x, y)


@case(x=tensor(100), y=tensor(100), dtype="f32", require=VECTORISED)
def test_atan2(x, y):
    return torch.atan2(x, y)


@case(x=tensor(100), y=tensor(100), dtype="bf16", require=VECTORISED, numerics={"exact": True})
def test_copysign(x, y):
    return torch.copysign(x, y), torch.copysign(x, -2.0)


@case(
    x=tensor(100),
    y=tensor(100),
    require=VECTORISED,
    numerics={"exact": True, "for": {"cuda": {"without": dict.fromkeys(("denormals", "edges", "ties"), NO_DENORMALS)}}},
)
def test_nextafter(x, y):
    return torch.nextafter(x, y)


@case(x=tensor(100), y=tensor(100), dtype="f32", require=VECTORISED)
def test_heaviside(x, y):
    return torch.heaviside(x, y)


@case(x=tensor(100), y=tensor(100, low=0, high=4), dtype="f32", require=VECTORISED)
def test_xlogy(x, y):
    return torch.xlogy(x, y), torch.special.xlog1py(x, y)


@case(x=tensor(100), y=tensor(100), dtype="f32", require=VECTORISED)
def test_logaddexp(x, y):
    return torch.logaddexp(x, y), torch.logaddexp2(x, y)


#: Operators of two tensors. What they give for infinity with infinity, or with 0, is a branch of its own. For fmod,
#: remainder and nextafter see pointwise/remainder_of_scalar, same_operand/alone and binary/nextafter.
OF_PAIRS = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "div": torch.div,
    "pow": torch.pow,
    "atan2": torch.atan2,
    "hypot": torch.hypot,
    "maximum": torch.maximum,
    "fmin": torch.fmin,
    "copysign": torch.copysign,
    "heaviside": torch.heaviside,
    "logaddexp": torch.logaddexp,
    "logaddexp2": torch.logaddexp2,
    "xlogy": torch.xlogy,
    "xlog1py": torch.special.xlog1py,
    "lerp": lambda x, y: torch.lerp(x, y, 0.3),
    "less": torch.lt,
}


# Each element of x with each of y: so a special value meets each other one, and 0.
@case(
    x=tensor(20, 1, zeros=0.1),
    y=tensor(30, zeros=0.1),
    function=OF_PAIRS,
    require={"all": {"fallbacks": [], "extern": [], "graph_breaks": 0, "kernels": 1}},
    numerics={
        "for": {
            "cuda hypot": FLUSHED,
            "cuda xlog1py": FLUSHED,
            "cuda atan2": {"without": dict.fromkeys(("denormals", "edges"), DENORMAL_RESULTS)},
            "cuda pow": {"without": dict.fromkeys(("denormals", "edges", "full_range"), DENORMAL_RESULTS)},
        }
    },
)
def test_each_pair(x, y, function):
    return function(x, y)


@case(
    x=tensor(100),
    dtype=["f32", "bf16"],
    require=VECTORISED,
    numerics={"fill": {"output[5]": "the power of 0 is 1, also of NaN"}},
)
def test_pow_by_number(x):
    return x**2, x**3, x**0.5, x**-1, x**-2, x**0


@case(x=tensor(100), dtype="f32", require=VECTORISED)
def test_pow_of_number(x):
    return 2**x, 2.5**x


@case(x=tensor(100), dtype=["i64", "u8"], require=VECTORISED)
def test_pow_of_integers(x):
    return x**2, x**3, x**5


@case(
    x=tensor(100),
    y=tensor(100, low=0, high=9),
    dtype="i32",
    require={"all": {"graph_breaks": 0}},
    missed=LOOP,
)
def test_pow_by_integers(x, y):
    return torch.pow(x, y)


@case(x=tensor(100), y=tensor(100), dtype="f64", require=VECTORISED)
def test_pow(x, y):
    return torch.pow(x, y)


@case(x=tensor(100), y=tensor(100), dtype="i32", require={"all": {"graph_breaks": 0}}, missed=LOOP)
def test_gcd(x, y):
    return torch.gcd(x, y)


# Where both are 0, they are equal.
@case(
    x=tensor(100, zeros=0.3),
    y=tensor(100, zeros=0.3),
    dtype=["f64", "i64", "i16", "bool"],
    require={"all": ONE_KERNEL} | {f"cpu {dtype}": {"vectorised": "yes"} for dtype in ("f64", "i64", "bool")},
    missed=INT16,
    numerics={"exact": True},
)
def test_compare(x, y):
    return x < y, x >= y, x == y, x != y


# The ties of x are among the integers of y.
@case(x=tensor(100, dtype="f32"), y=tensor(100, low=-2, high=3, dtype="i64"), require=VECTORISED)
def test_compare_with_integers(x, y):
    return x < y, x == y


# PyTorch compares them as 16-bit integers, which hold the values of both.
@case(
    x=tensor(100, dtype="u8", zeros=0.3),
    y=tensor(100, dtype="i8", zeros=0.3),
    require={"all": ONE_KERNEL},
    missed={"cpu": INT16["cpu i16"]},
    numerics={"exact": True},
)
def test_compare_signs(x, y):
    return x < y, x == y, torch.maximum(x, y)


@case(x=tensor(100), y=tensor(100), dtype="f32", require=VECTORISED, numerics={"exact": True})
def test_logical(x, y):
    return torch.logical_and(x, y), torch.logical_or(x, y), torch.logical_xor(x, y)


@case(x=tensor(100), y=tensor(100), dtype="bool", require=VECTORISED, numerics={"exact": True})
def test_bits_of_bool(x, y):
    return x & y, x | y, x ^ y, ~x


@case(
    x=tensor(100),
    y=tensor(100, low=0, high=7),
    dtype=["i64", "i16", "u8"],
    require={"all": ONE_KERNEL, "cpu i64": {"vectorised": "yes"}, "cpu u8": {"vectorised": "yes"}},
    missed=INT16,
    numerics={"exact": True},
)
def test_shift(x, y):
    return x << y, x >> y


PRODUCT_OVERFLOWS = "fused with the sum, a product does not overflow where it does alone; this differs between seeds"


@case(x=tensor(100), y=tensor(100), dtype="f32", require=VECTORISED, numerics={"branch": [0.5]})
def test_lerp(x, y):
    return torch.lerp(x, y, 0.25), torch.lerp(x, y, 0.75)


@case(
    x=tensor(100),
    y=tensor(100),
    w=tensor(100),
    dtype="bf16",
    require=VECTORISED,
    numerics={"without": {"huge": PRODUCT_OVERFLOWS}},
)
def test_lerp_by_tensor(x, y, w):
    return torch.lerp(x, y, w)


@case(
    x=tensor(100),
    y=tensor(100),
    z=tensor(100),
    dtype=["bf16", "i64"],
    require=VECTORISED,
    numerics={"for": {"bf16": {"without": {"huge": PRODUCT_OVERFLOWS}}, "cuda bf16": FUSED}},
)
def test_addcmul(x, y, z):
    return torch.addcmul(x, y, z, value=2)


@case(
    x=tensor(100),
    y=tensor(100),
    z=tensor(100, low=0.5, high=2),
    dtype="bf16",
    require=VECTORISED,
    numerics=QUOTIENT,
)
def test_addcdiv(x, y, z):
    return torch.addcdiv(x, y, z, value=0.5)


@case(
    x=tensor(100),
    y=tensor(100),
    where=tensor(100, dtype="bool"),
    dtype=["f64", "i64", "bool"],
    require=VECTORISED,
    numerics={"exact": True},
)
def test_where(x, y, where):
    return torch.where(where, x, y), x.masked_fill(where, 1), torch.where(where, x, 0)


@case(
    x=tensor(100),
    y=tensor(100),
    dtype=["f32", "bf16", "i64"],
    require=VECTORISED,
    numerics={"branch": [0.25, 0.75]},
)
def test_clamp(x, y):
    return torch.clamp(x, min=y), torch.clamp(x, y, y + 1), x.clamp(0.25, 0.75) if x.is_floating_point() else x.clamp(2)


@case(
    x=tensor(16, 1, 20, dtype=["f32", "u8"]),
    y=tensor(5, 1, dtype=["f16", "i64"]),
    vary="one_at_a_time",
    require=VECTORISED,
)
def test_mixed_broadcast(x, y):
    return x * y


GRADIENTS = {
    "div": torch.div,
    "atan2": torch.atan2,
    "hypot": torch.hypot,
    "maximum": torch.maximum,
    "logaddexp": torch.logaddexp,
    "xlogy": torch.xlogy,
}


@case(
    x=tensor(100, low=0.05, high=2.0),
    y=tensor(100, low=0.05, high=2.0),
    function=GRADIENTS | {"pow": torch.pow},
    dtype=["f32", "bf16"],
    grad=True,
    vary="one_at_a_time",
    require=WITH_GRADIENT,
)
def test_gradient(x, y, function):
    return function(x, y)


test_references = references(
    test_arithmetic,
    test_divide,
    test_extrema,
    test_extrema_of_numbers,
    test_atan2,
    test_copysign,
    test_heaviside,
    test_xlogy,
    test_logaddexp,
    test_each_pair,
    test_pow_by_number,
    test_pow_of_integers,
    test_lerp,
    test_addcmul,
    test_addcdiv,
    test_clamp,
)
test_references_backward = references(test_gradient)
