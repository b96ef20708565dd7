"""accuracy: compiled's error in ulp is at most so much larger than eager's as accuracy_limits.py says.

A dict of operators is one function: each is a row of docs/accuracy.md. x of f32 has one of each 65,536 neighbours: all
exponents and both signs. In the emulation of a GPU, functions of this machine stand for those of the device's library:
its results are about the operators that Inductor takes apart, and say nothing of that library.

test_every_value.py reads the rows of bf16 and f16. Not here: `remainder` and `floor_divide`, a known failure of
pointwise/division_by_negative-f32. `xlog1py`: log1p of the smallest denormals is 0, and a factor multiplies that error.
`logaddexp`: it cancels near 0. The other rows are exact, or take seconds to compile.
"""

import torch
import torch.nn.functional as F

from conformance import case, every_value, tensor
from conformance.ops.accuracy_limits import excess

#: No code is stored. `fallbacks` is a requirement, because an operator that Inductor leaves to eager compares nothing.
CHECKS = ("numerics", "requirements")
INDUCTOR_ONLY = {"fallbacks": [], "extern": [], "graph_breaks": 0}
NEW = {"torch>=2.13": "the known failures of torch 2.12 and older are not written down"}
ALL_EXPONENTS = every_value("f32", step=2**16)
#: Triton has functions of its own for these, of other formulas than those of a CPU: the limits for a GPU.
OF_TRITON = {"log": 2.0, "sigmoid": 2.0, "xlogy": 2.0}


def limits(operators):
    """The numerics of a function that gives a dict with the result of each of these operators."""
    of_cpu = {f"output[{name!r}]": excess(name, "f32") for name in operators}
    of_gpu = of_cpu | {f"output[{name!r}]": ulp for name, ulp in OF_TRITON.items() if name in operators}
    return {
        "excess": of_cpu,
        "for": {"gpu": {"excess": of_gpu}},
        "reason": "erfinv: eager's is better by measured 50.2 ulp, near -1",
    }


UNARY = {
    "sqrt": torch.sqrt,
    "rsqrt": torch.rsqrt,
    "reciprocal": torch.reciprocal,
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
    "sigmoid": torch.sigmoid,
    "erfc": torch.erfc,
    "erfinv": torch.erfinv,
    "lgamma": torch.lgamma,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "mish": F.mish,
    "softplus": F.softplus,
    "logsigmoid": F.logsigmoid,
}


@case(
    x=ALL_EXPONENTS,
    config={"max_fusion_size": 1},  # a loop of many functions takes four times as long to compile
    only=NEW,
    checks=CHECKS,
    require={"all": INDUCTOR_ONLY, "cpu": {"vectorised": "yes"}},
    numerics=limits(UNARY),
)
def test_unary(x):
    return {name: operator(x) for name, operator in UNARY.items()}


BINARY = {
    "div": torch.div,
    "pow": torch.pow,
    "atan2": torch.atan2,
    "fmod": torch.fmod,
    "hypot": torch.hypot,
    "xlogy": torch.xlogy,
}


@case(
    x=tensor(2**13),
    y=tensor(2**13),
    config={"max_fusion_size": 1},
    only=NEW,
    checks=CHECKS,
    require={"all": INDUCTOR_ONLY},
    numerics=limits(BINARY),
)
def test_binary(x, y):
    return {name: operator(x, y) for name, operator in BINARY.items()}


#: A known failure on a CPU, each with an entry of its own.
FAILING = {
    "expm1": torch.expm1,
    "elu": F.elu,
    "atanh": torch.atanh,
    "acosh": torch.acosh,
    "erf": torch.erf,
}


@case(
    x=ALL_EXPONENTS,
    function=FAILING,
    only=NEW,
    checks=CHECKS,
    require={"all": INDUCTOR_ONLY},
    numerics={"for": {name: {"excess": {"output": excess(name, "f32")}} for name in FAILING}},
)
def test_failing(x, function):
    return function(x)
