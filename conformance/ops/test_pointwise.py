"""pointwise: elementwise functions: arithmetic, casts, comparisons, bits, special functions, type promotion."""

import torch

from conformance import FLUSHED, case, references, tensor

#: Inductor generates no C++ vector code for 16-bit integers.
INT16 = {"cpu i16": {"vectorised": "yes", "judgement": "every instruction set has vectors of 16-bit integers"}}

#: For every function here: one kernel, and nothing is left to eager.
ONE_KERNEL = {"kernels": 1, "kinds": ["pointwise"], "fallbacks": [], "extern": [], "graph_breaks": 0}
SHAPES = [(1000,), (3,), (7, 33)]


@case(
    x=tensor(),
    y=tensor(),
    shape=SHAPES,
    dtype=["f32", "f64", "f16", "bf16", "i64", "i32", "i16", "i8", "u8", "bool"],
    dynamic=[False, True],
    vary="one_at_a_time",
    require={
        "all": ONE_KERNEL,
        **{
            f"cpu 1000 {dtype}": {"vectorised": "yes"}
            for dtype in ("f32", "f64", "f16", "bf16", "i64", "i32", "i8", "u8")
        },
    },
    missed=INT16,
)
def test_add(x, y):
    return x + y


@case(x=tensor(20, 30, layout=["contiguous", "transposed", "sliced"]), y=tensor(20, 30), require={"all": ONE_KERNEL})
def test_add_layouts(x, y):
    return x + y


@case(
    x=tensor(),
    shape=SHAPES,
    dtype=["f32", "f64", "f16", "bf16"],
    vary="one_at_a_time",
    require={"all": ONE_KERNEL},
)
def test_sin2_cos2(x):
    return torch.sin(x) ** 2 + torch.cos(x) ** 2


# The gradient is 0, up to rounding.
@case(x=tensor(1000), grad=True, require={"all": {"kernels": 2, "kernels.backward": 1, "fallbacks": []}})
def test_sin2_cos2_gradient(x):
    return torch.sin(x) ** 2 + torch.cos(x) ** 2


@case(x=tensor(1000, dtype=["f32", "f64"]), y=tensor(1000), grad=[False, True], require={"forward": ONE_KERNEL})
def test_sin_sin(x, y):
    return torch.sin(x) + torch.sin(y)


FUNCTIONS = {
    "exp": torch.exp,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "gelu": torch.nn.functional.gelu,
    "silu": torch.nn.functional.silu,
    "softplus": torch.nn.functional.softplus,
    "sign": torch.sign,
    "lgamma": torch.lgamma,
}


@case(
    x=tensor(257, low=0.05, high=4.0),
    function=FUNCTIONS,
    dtype=["f32", "bf16"],
    vary="one_at_a_time",
    require={"all": ONE_KERNEL, "cpu f32": {"vectorised": "yes"}},
    numerics={"for": {"sign": {"fill": {"output": "all inputs are positive; unary/magnitudes has others"}}}},
)
def test_function(x, function):
    return function(x)


@case(x=tensor(257), dtype=["f32", "bf16"], require={"all": ONE_KERNEL})
def test_error_functions(x):
    return torch.erf(x), torch.erfc(x)


@case(x=tensor(257, low=-1, high=1, dtype=["f32", "f64"]), require={"all": ONE_KERNEL})
def test_erfinv(x):
    return torch.erfinv(x)


# Around 89, exp(x) overflows in float32, but sinh(x) and cosh(x) do not yet.
@case(
    x=tensor(257),
    dtype=["f32", "f64"],
    require={"all": ONE_KERNEL},
    numerics={"branch": [88.0, 89.0, -88.0, -89.0]},
)
def test_hyperbolic(x):
    return torch.sinh(x), torch.cosh(x), torch.tanh(x)


@case(x=tensor(257, dtype=["f32", "f64"]), require={"all": ONE_KERNEL}, numerics={"for": {"cuda f32": FLUSHED}})
def test_inverse_hyperbolic(x):
    return torch.asinh(x), torch.acosh(x), torch.atanh(x)


@case(x=tensor(257), dtype=["f32", "bf16"], require={"all": ONE_KERNEL, "cpu f32": {"vectorised": "yes"}})
def test_activations(x):
    functional = torch.nn.functional
    return functional.elu(x), functional.hardswish(x), functional.mish(x), functional.leaky_relu(x, 0.1)


@case(x=tensor(257), require={"all": ONE_KERNEL}, numerics={"exact": True})
def test_negated(x):
    return -x


@case(
    x=tensor(257, low=0.05, high=2.0),
    y=tensor(257, low=-2.0, high=2.0),
    function={"pow": torch.pow, "atan2": torch.atan2, "fmod": torch.fmod, "hypot": torch.hypot, "max": torch.maximum},
    require={"all": ONE_KERNEL},
)
def test_binary_function(x, y, function):
    return function(x, y)


TO = {
    "to_f64": torch.float64,
    "to_f16": torch.float16,
    "to_bf16": torch.bfloat16,
    "to_i64": torch.int64,
    "to_i32": torch.int32,
    "to_i16": torch.int16,
    "to_i8": torch.int8,
    "to_u8": torch.uint8,
    "to_bool": torch.bool,
}


# Only values that every dtype can hold: C++ does not define conversions out of range.
@case(
    x=tensor(257, low=0, high=100),
    to=TO,
    require={"all": ONE_KERNEL},
    missed={"cpu to_i16": INT16["cpu i16"]},
    numerics={"exact": True},
)
def test_cast(x, to):
    return x.to(to)


# With zeros, some elements are equal.
@case(
    x=tensor(257, zeros=0.2),
    y=tensor(257, zeros=0.2),
    dtype=["f32", "bf16", "i32", "u8"],
    require={"all": ONE_KERNEL, "cpu": {"vectorised": "yes"}},
    numerics={"exact": True},
)
def test_compare(x, y):
    return (x < y) | (x == y), x != y


@case(
    x=tensor(257),
    y=tensor(257),
    dtype=["u8", "i8", "i16", "i32", "i64"],
    require={"all": ONE_KERNEL},
    missed=INT16,
    numerics={"exact": True},
)
def test_bits(x, y):
    return (x & y) | ~(x ^ y), x << 1, x >> 2


@case(
    x=tensor(257),
    y=tensor(257, low=1, high=7),
    dtype=["i8", "u8", "i32", "i64"],
    require={"all": ONE_KERNEL},
    numerics={"exact": True},
)
def test_integer_division(x, y):
    return x // y, torch.div(x, y, rounding_mode="trunc"), x % y


@case(
    x=tensor(257),
    y=tensor(257, low=-7, high=-1),
    dtype=["i8", "i32", "i64", "f32"],
    require={"all": ONE_KERNEL},
    numerics={"exact": True},
)
def test_division_by_negative(x, y):
    return torch.div(x, y, rounding_mode="floor"), torch.remainder(x, y), torch.fmod(x, y)


@case(
    x=tensor(257, dtype=["f32", "bf16", "i32"]),
    require={"all": ONE_KERNEL},
    numerics={"exact": True, "for": {"cuda f32": FLUSHED}},
)
def test_remainder_of_scalar(x):
    return torch.remainder(x, 3), torch.fmod(x, 1.7)


# Adding 0 and multiplying by 1 change only the sign of a zero, and so the sign of its reciprocal.
@case(x=tensor(257), require={"all": ONE_KERNEL})
def test_neutral_elements(x):
    return torch.reciprocal(x + torch.zeros_like(x)), torch.reciprocal(x * 1 - 0)


@case(x=tensor(257), require={"all": {"fallbacks": [], "extern": [], "graph_breaks": 0}})
def test_adding_zeros(x):
    return x + torch.zeros_like(x)


@case(
    x=tensor(257, dtype=["i8", "u8", "i16", "i32"]),
    require={"all": ONE_KERNEL},
    missed=INT16,
    numerics={"exact": True},
)
def test_wrap_around(x):
    return x * x * x + x


# Type promotion: two tensors with dimensions decide the dtype together. (Numbers and 0-dim tensors do not, see below.)
@case(
    x=tensor(257, dtype=["f16", "i32", "u8"]),
    y=tensor(257, dtype=["f32", "bf16", "i8"]),
    vary="one_at_a_time",
    require={"all": ONE_KERNEL},
)
def test_promotion(x, y):
    return x + y


@case(
    x=tensor(257),
    scale={"int": 3, "float": 2.5, "bool": True},
    dtype=["f32", "bf16", "i32", "u8"],
    vary="one_at_a_time",
    require={"all": ONE_KERNEL},
)
def test_scalar(x, scale):
    return x * scale + 1


@case(
    x=tensor(257),
    y=tensor(dtype=["f32", "f64", "i64"], shape=()),
    dtype=["bf16", "i32"],
    vary="one_at_a_time",
    require={"all": ONE_KERNEL},
    numerics={
        "for": {"cpu f64": {"recompiles": 1, "reason": "Dynamo guards on whether a 0-dim float64 of the CPU is NaN"}}
    },
)
def test_zero_dimensional(x, y):
    return x + y


@case(
    x=tensor(16, 1, 33),
    y=tensor(5, 1),
    grad=[False, True],
    require={"forward": ONE_KERNEL, "backward": {"fallbacks": [], "extern": []}},
)
def test_broadcast(x, y):
    return x * y


@case(x=tensor(257), y=tensor(257), dtype=["f32", "bf16", "i32"], require={"all": ONE_KERNEL})
def test_where_clamp(x, y):
    return torch.where(x > 0, x, y).clamp(-1, 2), torch.clamp_min(y, 0)


@case(x=tensor(128, dtype=["c64", "c128"]), require={"all": {"graph_breaks": 0}})
def test_complex(x):
    return x * x.conj() + 1


@case(x=tensor(shape=(), dtype="i8"), y=tensor(shape=(), dtype="i8"), checks=["numerics"])
def test_less_of_two_bytes(x, y):
    return torch.minimum(x.abs(), y)


test_references = references(
    test_sin2_cos2,
    test_sin2_cos2_gradient,
    test_function,
    test_error_functions,
    test_erfinv,
    test_hyperbolic,
    test_inverse_hyperbolic,
    test_activations,
    test_binary_function,
)
test_references_of_arithmetic = references(
    test_add,
    test_bits,
    test_integer_division,
    test_division_by_negative,
    test_remainder_of_scalar,
    test_promotion,
    test_broadcast,
    test_where_clamp,
)
