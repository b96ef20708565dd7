"""unary: elementwise functions of one input: rounding, magnitudes, tests for special values, exponentials, arcs."""

import torch

from conformance import FLUSHED, case, references, tensor

#: Inductor generates no C++ vector code for 16-bit integers.
INT16 = {"cpu i16": {"vectorised": "yes", "judgement": "every instruction set has vectors of 16-bit integers"}}

ONE_KERNEL = {"kernels": 1, "kinds": ["pointwise"], "fallbacks": [], "extern": [], "graph_breaks": 0}
VECTORISED = {"all": ONE_KERNEL, "cpu": {"vectorised": "yes"}}
WITH_GRADIENT = {"all": {"kernels.backward": 1, "fallbacks": [], "extern": [], "graph_breaks": 0}}


@case(
    x=tensor(100, dtype=["f32", "f64", "f16"]),
    require=VECTORISED,
    numerics={"exact": True, "for": {"cuda f32": FLUSHED}},
)
def test_rounding(x):
    return torch.floor(x), torch.ceil(x), torch.trunc(x), torch.round(x * 4)


@case(x=tensor(100, dtype="bf16"), require=VECTORISED)
def test_frac(x):
    return torch.frac(x)


@case(x=tensor(100, dtype="f32"), decimals=[2, -1], require=VECTORISED)
def test_round_decimals(x, decimals):
    return torch.round(x, decimals=decimals)


@case(
    x=tensor(100, dtype=["i64", "i16", "i8", "u8"]),
    require={"all": ONE_KERNEL} | {f"cpu {dtype}": {"vectorised": "yes"} for dtype in ("i64", "i8", "u8")},
    missed=INT16,
    numerics={"exact": True},
)
def test_integers(x):
    return torch.abs(x), -x, ~x, torch.sign(x), torch.square(x), torch.relu(x)


# Rounding an integer changes nothing, so a compiler should not compute it.
@case(x=tensor(100, dtype="i64"), require=VECTORISED, numerics={"exact": True})
def test_rounding_integers(x):
    return torch.floor(x) + 1, torch.round(x) * 2, torch.trunc(x) - 1


# The larger one of 0 and -0 may be either: on cuda, relu(-0) is not eager's in float64.
@case(
    x=tensor(100, dtype=["f64", "bf16"]),
    require=VECTORISED,
    numerics={"exact": True, "for": {"cuda f64": {"exact": False}}},
)
def test_magnitudes(x):
    return torch.abs(x), torch.sign(x), torch.relu(x)


@case(x=tensor(100, dtype=["f32", "bf16"]), require=VECTORISED, numerics={"exact": True})
def test_predicates(x):
    return torch.isnan(x), torch.isinf(x), torch.isfinite(x), torch.isposinf(x), torch.isneginf(x)


@case(x=tensor(100, dtype="f32"), require=VECTORISED, numerics={"exact": True})
def test_signbit(x):
    return torch.signbit(x)


@case(x=tensor(100, dtype=["f32", "bf16"]), require=VECTORISED)
def test_nan_to_num(x):
    return torch.nan_to_num(x), torch.nan_to_num(x, nan=1.0, posinf=2.0, neginf=-2.0)


@case(x=tensor(100, dtype="u8"), require=VECTORISED, numerics={"exact": True})
def test_logical_not(x):
    return torch.logical_not(x), x == 0


# Integers of any width become float32 in these functions.
@case(x=tensor(100, low=1, high=100, dtype=["i64", "u8"]), require=VECTORISED)
def test_functions_of_integers(x):
    return torch.sqrt(x), torch.exp(-x.float()), torch.reciprocal(x), torch.log2(x)


@case(x=tensor(200, dtype=["f64", "f16"]), require={"all": ONE_KERNEL, "cpu": {"vectorised": "yes"}})
def test_trigonometric(x):
    return torch.sin(x), torch.cos(x), torch.atan(x)


@case(x=tensor(200, dtype="f32"), require=VECTORISED)
def test_tangent(x):
    return torch.tan(x)


@case(
    x=tensor(200, low=-1, high=1, dtype=["f32", "f64"]),
    require=VECTORISED,
    numerics={"for": {"cuda f32": FLUSHED}},
)
def test_arcs(x):
    return torch.asin(x), torch.acos(x), torch.sinc(x)


@case(x=tensor(200, low=0, high=1, dtype="f32"), require=VECTORISED)
def test_logit(x):
    return torch.logit(x), torch.logit(x, eps=1e-3)


@case(x=tensor(200, dtype=["f32", "f64"]), require=VECTORISED)
def test_exponentials(x):
    return torch.exp(x), torch.exp2(x), torch.expm1(x)


@case(x=tensor(200, dtype=["f32", "f64"]), require=VECTORISED)
def test_logarithms(x):
    return torch.log(x), torch.log2(x), torch.log10(x), torch.log1p(x)


@case(x=tensor(200, dtype=["f32", "bf16"]), require=VECTORISED, numerics={"for": {"cuda": FLUSHED}})
def test_roots(x):
    return torch.sqrt(x), torch.rsqrt(x), torch.reciprocal(x)


GRADIENTS = {
    "tan": torch.tan,
    "atan": torch.atan,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "rsqrt": torch.rsqrt,
    "abs": torch.abs,
}


@case(
    x=tensor(200),
    function=GRADIENTS,
    dtype=["f32", "bf16"],
    grad=True,
    vary="one_at_a_time",
    also=[{"function": "tanh", "dtype": "bf16"}],
    require=WITH_GRADIENT,
    numerics={"for": {"cuda rsqrt": FLUSHED}},
)
def test_gradient(x, function):
    return function(x)


@case(
    x=tensor(12, 40, layout=["contiguous", "transposed", "strided", "expanded"]),
    grad=[False, True],
    vary="one_at_a_time",
    also=[{"x.layout": "transposed", "grad": True}],
    require={"forward": ONE_KERNEL, "backward": WITH_GRADIENT["all"]},
    numerics={"for": {"cuda": {"factor": 16, "reason": "libdevice's exp: measured 6.3 ulp, 21 times eager's error"}}},
)
def test_layouts(x):
    return torch.sin(x) * torch.sigmoid(x)


test_references = references(
    test_rounding, test_frac, test_round_decimals, test_integers, test_magnitudes, test_predicates, test_nan_to_num
)
test_references_of_functions = references(
    test_trigonometric,
    test_tangent,
    test_exponentials,
    test_logarithms,
    test_roots,
    test_arcs,
    test_logit,
    test_gradient,
)


# Close to 0, where exp(x) - 1 and log(1 + x) would have no correct digits.
@case(
    x=tensor(200, low=-1e-3, high=1e-3),
    function={"expm1": torch.expm1, "log1p": torch.log1p, "elu": torch.nn.functional.elu, "asinh": torch.asinh},
    require={"all": {"graph_breaks": 0, "extern": []}},
)
def test_close_to_0(x, function):
    return function(x)
