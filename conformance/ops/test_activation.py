"""activation: activation functions of torch.nn.functional and their gradients, also where they change branch."""

import torch

from conformance import case, references, tensor

functional = torch.nn.functional

ONE_KERNEL = {"kernels": 1, "kinds": ["pointwise"], "fallbacks": [], "extern": [], "graph_breaks": 0}
WITH_GRADIENT = {"all": {"kernels": 2, "kernels.backward": 1, "fallbacks": [], "extern": [], "graph_breaks": 0}}

FUNCTIONS = {
    "elu": lambda x: functional.elu(x, alpha=0.5),
    "gelu": functional.gelu,
    "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "silu": functional.silu,
    "mish": functional.mish,
    "hardtanh": lambda x: functional.hardtanh(x, -0.75, 1.25),
    "hardswish": functional.hardswish,
    "hardsigmoid": functional.hardsigmoid,
    "softsign": functional.softsign,
    "softplus": lambda x: functional.softplus(x, beta=2.0, threshold=5.0),
    "softshrink": lambda x: functional.softshrink(x, 0.5),
    "hardshrink": lambda x: functional.hardshrink(x, 0.5),
    "logsigmoid": functional.logsigmoid,
    "threshold": lambda x: functional.threshold(x, 0.25, 20.0),
}

#: Where at least one of them changes branch.
KINKS = [-3.0, -0.75, 0.0, 0.25, 1.25, 2.5, 3.0, 6.0]
NAN_BY_POSITION = (
    "for NaN, eager's result on cpu depends on the position: https://github.com/pytorch/pytorch/issues/195075"
)
NO_NAN = {"without": {"nan": NAN_BY_POSITION}}
ERF = {"factor": 8, "reason": "vectorised erf is good to an absolute error of 1.5e-7"}
#: Functions for whose gradient eager's vectorised loop makes other comparisons than its scalar loop.
OTHER_COMPARISONS = ("elu", "hardtanh", "hardswish", "hardshrink", "softshrink")


@case(
    x=tensor(200),
    function=FUNCTIONS,
    grad=True,
    require=WITH_GRADIENT | {"cpu": {"vectorised": "yes"}},
    numerics={"branch": KINKS, "for": dict.fromkeys(OTHER_COMPARISONS, NO_NAN) | {"gelu": ERF}},
)
def test_gradient(x, function):
    return function(x)


@case(
    x=tensor(200, dtype="bf16"),
    function={name: FUNCTIONS[name] for name in ("gelu_tanh", "silu", "mish")},
    grad=True,
    require=WITH_GRADIENT | {"cpu": {"vectorised": "yes"}},
    numerics={"branch": KINKS},
)
def test_gradient_of_16_bits(x, function):
    return function(x)


@case(
    x=tensor(200, dtype="f16"),
    require={"all": ONE_KERNEL, "cpu": {"vectorised": "yes"}},
    numerics={"branch": KINKS},
)
def test_forward(x):
    return functional.selu(x), functional.gelu(x), functional.relu6(x), functional.hardsigmoid(x), functional.celu(x)


# NaN is checked here, because test_gradient leaves it out for these two.
@case(x=tensor(200), require={"all": ONE_KERNEL, "cpu": {"vectorised": "yes"}}, numerics={"branch": [0.5, -0.5]})
def test_shrink(x):
    return functional.softshrink(x), functional.hardshrink(x)


@case(
    x=tensor(4, 6, 10, dtype="f32"),
    weight=tensor(6),
    grad=True,
    require={"all": {"fallbacks": [], "extern": [], "graph_breaks": 0}, "cpu": {"vectorised": "yes"}},
)
def test_prelu(x, weight):
    return functional.prelu(x, weight)


@case(
    x=tensor(10, 32, dtype="bf16", layout=["contiguous", "transposed"]),
    dim={"last": -1, "first": 0},
    grad=True,
    vary="one_at_a_time",
    require={"all": {"fallbacks": [], "extern": [], "graph_breaks": 0}, "cpu": {"vectorised": "yes"}},
)
def test_glu(x, dim):
    return functional.glu(x, dim)


# SwiGLU and GeGLU, which language models use.
@case(
    x=tensor(10, 32, dtype="bf16"),
    gate={"silu": functional.silu, "gelu_tanh": FUNCTIONS["gelu_tanh"]},
    grad=True,
    vary="one_at_a_time",
    require={"all": {"fallbacks": [], "extern": [], "graph_breaks": 0}, "cpu": {"vectorised": "yes"}},
)
def test_gated(x, gate):
    value, by = x.chunk(2, -1)
    return value * gate(by)


@case(x=tensor(200), dynamic=True, grad=True, require=WITH_GRADIENT)
def test_dynamic(x):
    return functional.silu(x) + functional.hardtanh(x)


test_references = references(
    test_gradient,
    test_gradient_of_16_bits,
    test_forward,
    test_shrink,
    test_prelu,
    test_glu,
    test_gated,
)
