"""other_inputs: one input alone is transposed, or a size is 0, or a constant is infinite or -0."""

import torch
from torch import nn

from conformance import case, module, tensor

functional = nn.functional
NUMERICS = ("numerics",)


@case(
    x=tensor(5, 7, layout=["transposed", "contiguous"]),
    y=tensor(5, 7, layout=["contiguous", "transposed"]),
    function={"lerp": lambda x, y: torch.lerp(x, y, 0.75), "copysign": torch.copysign},
    vary="one_at_a_time",
    also=[{"function": "copysign", "x.layout": "contiguous", "y.layout": "transposed"}],
    checks=NUMERICS,
)
def test_one_transposed(x, y, function):
    return function(x, y)


@case(x=tensor(2, 4, 12, 12, layout="transposed"), checks=NUMERICS)
def test_positions_of_the_largest(x):
    return functional.adaptive_max_pool2d(x, (2, 2), return_indices=True)


@case(
    x=tensor(2, 16, 8, layout="transposed"),
    layer=module(lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)),
    training=False,
    mode="no_grad",
    checks=NUMERICS,
)
def test_encoder_layer(x, layer):
    return layer(x)


@case(
    x=tensor(5, 7, layout="transposed"),
    only={
        "cpu torch>=2.13": "quantized tensors of the pretended GPU do not run, and torch 2.11 breaks the graph at them"
    },
    checks=NUMERICS,
    numerics={"reference": "eager", "reason": "quantized numbers have no float64"},
)
def test_quantized(x):
    return torch.quantize_per_tensor(x, 0.1, 0, torch.quint8).dequantize()


NOTHING = {"fill": {"output": "there is no element", "output[0]": "a mean of nothing", "output[1]": "likewise"}}


@case(x=tensor(0), checks=NUMERICS, numerics=NOTHING)
def test_variance_of_nothing(x):
    return torch.var_mean(x)


@case(x=tensor(0, 7), checks=NUMERICS, numerics=NOTHING)
def test_norm_of_no_rows(x):
    return torch.linalg.vector_norm(x, float("inf"), dim=-1)


@case(x=tensor(5, 7, dtype="c64"), checks=NUMERICS)
def test_angle_of_negative_zero(x):
    x[0] = complex(-0.0, 0.0)
    return torch.angle(x)


@case(x=tensor(5, 7), checks=NUMERICS)
def test_infinite_constant_as_integer(x):
    return x * 2 + torch.sum(torch.log(torch.zeros_like(x)), dtype=torch.int32)
