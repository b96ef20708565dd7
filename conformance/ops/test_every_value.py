"""every_value: pointwise operators over every value of f16, bf16, i16, u8, i8 and bool, and over every pair of bytes.

One item is one operator: one compile serves all dtypes that eager takes. A function of this file stands for the dtypes
of its parameters, and its table names the operators that take exactly these. Only numerics are checked, on a CPU that
runs them. docs/numerics.md counts the values.
"""

import math

import torch
import torch.nn.functional as F

from conformance import case, every_value
from conformance.ops.accuracy_limits import DEFAULTS

#: The known failures of torch 2.12 and older are not written down.
NATIVE = {
    "cpu torch>=2.13": "each value is compared by running the code on the device; emulating a GPU would take minutes"
}
#: Nothing is stored. `fallbacks` is a requirement, because an operator that Inductor leaves to eager compares nothing.
CHECKS = ("numerics", "requirements")
COMPILED = {"all": {"fallbacks": [], "extern": [], "graph_breaks": 0}}

MOST_F16, MOST_BF16 = (torch.finfo(dtype).max for dtype in (torch.float16, torch.bfloat16))

FLOATING = {"x_f16": every_value("f16"), "x_bf16": every_value("bf16")}
SIGNED = FLOATING | {"x_i16": every_value("i16"), "x_i8": every_value("i8")}
NUMBERS = SIGNED | {"x_u8": every_value("u8")}
ALL = NUMBERS | {"x_bool": every_value("bool")}
INTEGERS = {name: values for name, values in ALL.items() if name not in FLOATING}
BYTES = {name: every_value(name[-2:]) for name in ("x_u8", "x_i8", "y_u8", "y_i8")}


#: The rows of docs/accuracy.md: the results for f16, and those for bf16 if there are any.
OF_F16 = {"excess": {"output[0]": DEFAULTS["f16"]}}
OF_BOTH = {"excess": OF_F16["excess"] | {"output[1]": DEFAULTS["bf16"]}}


def exact(*names):
    """The numerics of functions of f16 and bf16: results of those that round, select or move values must be eager's."""
    return OF_BOTH | {"for": {name: {"exact": True} for name in names}}


#: Eager takes all six dtypes.
OF_ALL = {
    "sign": torch.sign,
    "sgn": torch.sgn,
    "signbit": torch.signbit,
    "sqrt": torch.sqrt,
    "rsqrt": torch.rsqrt,
    "reciprocal": torch.reciprocal,
    "square": torch.square,
    "pow_2": lambda x: x**2,
    "pow_3": lambda x: x**3,
    "pow_half": lambda x: x**0.5,
    "exp": torch.exp,
    "exp2": torch.exp2,
    "log": torch.log,
    "log2": torch.log2,
    "log10": torch.log10,
    "log1p": torch.log1p,
    "sin": torch.sin,
    "cos": torch.cos,
    "tan": torch.tan,
    "asin": torch.asin,
    "acos": torch.acos,
    "atan": torch.atan,
    "sinh": torch.sinh,
    "cosh": torch.cosh,
    "tanh": torch.tanh,
    "asinh": torch.asinh,
    "sinc": torch.sinc,
    "sigmoid": torch.sigmoid,
    "logit": torch.logit,
    "erf": torch.erf,
    "erfc": torch.erfc,
    "erfinv": torch.erfinv,
    "lgamma": torch.lgamma,
    "digamma": torch.digamma,
    "i0": torch.special.i0,
    "i0e": torch.special.i0e,
    "i1": torch.special.i1,
    "i1e": torch.special.i1e,
    "entr": torch.special.entr,
    "polygamma": lambda x: torch.special.polygamma(1, x),
    "isnan": torch.isnan,
    "isinf": torch.isinf,
    "isfinite": torch.isfinite,
    "isposinf": torch.isposinf,
    "isneginf": torch.isneginf,
    "isreal": torch.isreal,
    "nan_to_num": torch.nan_to_num,
    "logical_not": torch.logical_not,
    "clamp": lambda x: torch.clamp(x, 3, 100),
    "deg2rad": torch.deg2rad,
    "rad2deg": torch.rad2deg,
    "angle": torch.angle,
    "to_f64": torch.Tensor.double,
    "to_f32": torch.Tensor.float,
    "to_f16": torch.Tensor.half,
    "to_bf16": torch.Tensor.bfloat16,
    "to_bool": torch.Tensor.bool,
}


@case(
    **ALL,
    function=OF_ALL,
    only=NATIVE,
    checks=CHECKS,
    require=COMPILED,
    numerics=exact("sign", "sgn", "clamp", "nan_to_num", "to_f64", "to_f32", "to_f16", "to_bf16"),
)
def test_all(x_f16, x_bf16, x_i16, x_u8, x_i8, x_bool, function):
    return tuple(map(function, (x_f16, x_bf16, x_i16, x_u8, x_i8, x_bool)))


#: Eager takes no bool.
OF_NUMBERS = {
    "abs": torch.abs,
    "neg": torch.neg,
    "positive": torch.positive,
    "floor": torch.floor,
    "ceil": torch.ceil,
    "round": torch.round,
    "trunc": torch.trunc,
    "relu": torch.relu,
    "relu6": F.relu6,
    "softsign": F.softsign,
    "tanhshrink": F.tanhshrink,
}


@case(
    **NUMBERS,
    function=OF_NUMBERS,
    only=NATIVE,
    checks=CHECKS,
    require=COMPILED,
    numerics=exact("abs", "neg", "floor", "ceil", "round", "trunc", "relu"),
)
def test_numbers(x_f16, x_bf16, x_i16, x_u8, x_i8, function):
    return tuple(map(function, (x_f16, x_bf16, x_i16, x_u8, x_i8)))


#: g++ 12.2 swaps the operands of a 256-bit blend of bytes whose mask is an inverted comparison, if it may use AVX-512.
#: Inductor lets it: -march=native. docs/numerics.md has a script.
MISCOMPILED = "for AVX2, g++ 12 with -march=native on a CPU with AVX-512 inverts `where(x <= c, …)` of i8"
THRESHOLD = {"threshold": lambda x: F.threshold(x, 3, 100)}


@case(
    **{name: values for name, values in NUMBERS.items() if name != "x_i8"},
    function=THRESHOLD,
    only=NATIVE,
    checks=CHECKS,
    require=COMPILED,
)
def test_without_i8(x_f16, x_bf16, x_i16, x_u8, function):
    return tuple(map(function, (x_f16, x_bf16, x_i16, x_u8)))


@case(
    x_i8=every_value("i8"),
    function=THRESHOLD,
    only={"cpu_avx512 torch>=2.13": MISCOMPILED, "cpu_neon torch>=2.13": "it is not of AVX2"},
    checks=CHECKS,
    require=COMPILED,
)
def test_i8(x_i8, function):
    return function(x_i8)


#: Eager takes no bool, and no u8: the lower bound is negative.
@case(
    **SIGNED,
    function={"hardtanh": F.hardtanh},
    only=NATIVE,
    checks=CHECKS,
    require=COMPILED,
    numerics=exact("hardtanh"),
)
def test_signed(x_f16, x_bf16, x_i16, x_i8, function):
    return tuple(map(function, (x_f16, x_bf16, x_i16, x_i8)))


#: Eager takes floating dtypes alone.
OF_FLOATING = {
    "frac": torch.frac,
    "ndtr": torch.special.ndtr,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "mish": F.mish,
    "softplus": F.softplus,
    "hardswish": F.hardswish,
    "hardsigmoid": F.hardsigmoid,
    "leaky_relu": F.leaky_relu,
    "logsigmoid": F.logsigmoid,
    "hardshrink": F.hardshrink,
    "round_decimals": lambda x: torch.round(x, decimals=2),
}


@case(**FLOATING, function=OF_FLOATING, only=NATIVE, checks=CHECKS, require=COMPILED, numerics=exact("hardshrink"))
def test_floating(x_f16, x_bf16, function):
    return function(x_f16), function(x_bf16)


#: Eager takes integers and bool alone.
OF_INTEGERS = {
    "bitwise_not": torch.bitwise_not,
    "ndtr": torch.special.ndtr,
    "ndtri": torch.special.ndtri,
    "log_ndtr": torch.special.log_ndtr,
    "erfcx": torch.special.erfcx,
    "bessel_j0": torch.special.bessel_j0,
    "bessel_j1": torch.special.bessel_j1,
    "bessel_y0": torch.special.bessel_y0,
    "bessel_y1": torch.special.bessel_y1,
    "modified_bessel_i0": torch.special.modified_bessel_i0,
    "modified_bessel_i1": torch.special.modified_bessel_i1,
    "modified_bessel_k0": torch.special.modified_bessel_k0,
    "modified_bessel_k1": torch.special.modified_bessel_k1,
    "scaled_modified_bessel_k0": torch.special.scaled_modified_bessel_k0,
    "scaled_modified_bessel_k1": torch.special.scaled_modified_bessel_k1,
    "spherical_bessel_j0": torch.special.spherical_bessel_j0,
    "airy_ai": torch.special.airy_ai,
    "to_i64": torch.Tensor.long,
    "to_i32": torch.Tensor.int,
    "to_i16": torch.Tensor.short,
    "to_i8": torch.Tensor.char,
    "to_u8": torch.Tensor.byte,
}


@case(
    **INTEGERS,
    function=OF_INTEGERS,
    only=NATIVE,
    checks=CHECKS,
    require=COMPILED,
    numerics={
        "for": {
            "ndtr": {
                "factor": 8,
                "reason": "1 + erf(x / sqrt(2)) cancels below 0, in eager too: an ulp of erf is 500 ulp of the result",
            }
        }
    },
)
def test_integers(x_i16, x_u8, x_i8, x_bool, function):
    return tuple(map(function, (x_i16, x_u8, x_i8, x_bool)))


#: Eager takes all six dtypes, and the results of bf16 are a known failure.
FAILING_IN_BF16 = {"expm1": torch.expm1, "acosh": torch.acosh, "atanh": torch.atanh}
#: Eager takes floating dtypes alone, and results are a known failure. Each dtype is an item of its own: then the entry
#: of one says nothing of the other.
FAILING = {"elu": F.elu, "selu": F.selu, "celu": lambda x: F.celu(x, alpha=1.5), "softshrink": F.softshrink}


@case(
    **{name: values for name, values in ALL.items() if name != "x_bf16"},
    function=FAILING_IN_BF16,
    only=NATIVE,
    checks=CHECKS,
    require=COMPILED,
    numerics=OF_F16,
)
def test_without_bf16(x_f16, x_i16, x_u8, x_i8, x_bool, function):
    return tuple(map(function, (x_f16, x_i16, x_u8, x_i8, x_bool)))


@case(x_bf16=every_value("bf16"), function=FAILING_IN_BF16 | FAILING, only=NATIVE, checks=CHECKS, require=COMPILED)
def test_bf16(x_bf16, function):
    return function(x_bf16)


@case(x_f16=every_value("f16"), function=FAILING, only=NATIVE, checks=CHECKS, require=COMPILED)
def test_f16(x_f16, function):
    return function(x_f16)


# The values for which softshrink and acosh are not known to fail: all but NaN, and all whose square is finite.
@case(
    x_f16=every_value("f16", low=-math.inf, high=math.inf),
    x_bf16=every_value("bf16", low=-math.inf, high=math.inf),
    only=NATIVE,
    checks=CHECKS,
    require=COMPILED,
)
def test_softshrink_of_numbers(x_f16, x_bf16):
    return F.softshrink(x_f16), F.softshrink(x_bf16)


@case(
    x_bf16=every_value("bf16", low=-math.inf, high=2**64 - 2**56),
    only=NATIVE,
    checks=CHECKS,
    require=COMPILED,
)
def test_acosh_of_small_numbers(x_bf16):
    return torch.acosh(x_bf16)


# C leaves the exponent of NaN and infinity open.
@case(
    x_f16=every_value("f16", low=-MOST_F16, high=MOST_F16),
    x_bf16=every_value("bf16", low=-MOST_BF16, high=MOST_BF16),
    only=NATIVE,
    checks=CHECKS,
    require=COMPILED,
)
def test_frexp(x_f16, x_bf16):
    return *torch.frexp(x_f16), *torch.frexp(x_bf16)


#: All pairs of u8, and all of i8. Inductor leaves gcd, lcm and pow of integers to eager.
OF_PAIRS = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "div": torch.div,
    "float_power": torch.float_power,
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "fmax": torch.fmax,
    "fmin": torch.fmin,
    "eq": torch.eq,
    "ne": torch.ne,
    "lt": torch.lt,
    "le": torch.le,
    "gt": torch.gt,
    "ge": torch.ge,
    "logical_and": torch.logical_and,
    "logical_or": torch.logical_or,
    "logical_xor": torch.logical_xor,
    "bitwise_and": torch.bitwise_and,
    "bitwise_or": torch.bitwise_or,
    "bitwise_xor": torch.bitwise_xor,
    "left_shift": torch.bitwise_left_shift,
    "right_shift": torch.bitwise_right_shift,
    "copysign": torch.copysign,
    "atan2": torch.atan2,
    "xlogy": torch.xlogy,
    "xlog1py": torch.special.xlog1py,
    "zeta": torch.special.zeta,
    "heaviside": torch.heaviside,
    "ldexp": torch.ldexp,
    "rsub": torch.rsub,
    "absolute_difference": lambda x, y: torch.abs(x - y),
}


@case(**BYTES, function=OF_PAIRS, only=NATIVE, checks=CHECKS, require=COMPILED)
def test_pairs(x_u8, x_i8, y_u8, y_i8, function):
    return function(x_u8[:, None], y_u8), function(x_i8[:, None], y_i8)


#: Eager raises where an integer is divided by 0.
DIVISIONS = {
    "div_trunc": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
    "div_floor": lambda x, y: torch.div(x, y, rounding_mode="floor"),
    "floor_divide": torch.floor_divide,
    "remainder": torch.remainder,
    "fmod": torch.fmod,
}
DIVISORS = {"y_u8": every_value("u8", without=(0,)), "y_i8": every_value("i8", without=(0,))}


@case(**BYTES | DIVISORS, function=DIVISIONS, only=NATIVE, checks=CHECKS, require=COMPILED)
def test_divisions(x_u8, x_i8, y_u8, y_i8, function):
    return function(x_u8[:, None], y_u8), function(x_i8[:, None], y_i8)


# C++ leaves open what the cast of NaN, or of a value outside of the integer's range, gives.
@case(
    f16_i64=every_value("f16", low=-MOST_F16, high=MOST_F16),
    f16_i32=every_value("f16", low=-MOST_F16, high=MOST_F16),
    f16_i16=every_value("f16", low=-(2**15), high=2**15 - 1),
    f16_i8=every_value("f16", low=-(2**7), high=2**7 - 1),
    f16_u8=every_value("f16", low=0, high=2**8 - 1),
    bf16_i64=every_value("bf16", low=-(2**63), high=2**63 - 2**55),
    bf16_i32=every_value("bf16", low=-(2**31), high=2**31 - 1),
    bf16_i16=every_value("bf16", low=-(2**15), high=2**15 - 1),
    bf16_i8=every_value("bf16", low=-(2**7), high=2**7 - 1),
    bf16_u8=every_value("bf16", low=0, high=2**8 - 1),
    only=NATIVE,
    checks=CHECKS,
    require=COMPILED,
)
def test_to_integers(f16_i64, f16_i32, f16_i16, f16_i8, f16_u8, bf16_i64, bf16_i32, bf16_i16, bf16_i8, bf16_u8):
    of_f16 = f16_i64.long(), f16_i32.int(), f16_i16.short(), f16_i8.char(), f16_u8.byte()
    of_bf16 = bf16_i64.long(), bf16_i32.int(), bf16_i16.short(), bf16_i8.char(), bf16_u8.byte()
    return of_f16 + of_bf16
