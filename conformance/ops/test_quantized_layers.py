"""quantized_layers: layers with 8-bit weights and inputs, which oneDNN computes in integers if weights are frozen."""

import torch
from torch import nn
from torch.ao.quantization.fx import _decomposed  # noqa: F401 - it registers torch.ops.quantized_decomposed
from torch.nn import functional
from torch.nn.functional import conv2d, linear

from conformance import case, tensor

quantized = torch.ops.quantized_decomposed
X86 = "PyTorch quantises for oneDNN on x86; on ARM it has other kernels, and on GPUs none"
#: Inductor freezes weights without gradients alone.
FROZEN = {
    "config": {"frozen": {"freezing": True}},
    "mode": "no_grad",
    "only": {"cpu_avx2": X86, "cpu_avx512": X86},
    # The operators refuse float64, and which integer a NaN becomes is not defined.
    "numerics": {
        "reference": "eager",
        "reason": "the operator takes float32 alone",
        "without": {"nan": "which integer a NaN becomes is not defined"},
    },
}
U8, I8 = (0, 255, torch.uint8), (-128, 127, torch.int8)


#: All scales are powers of 2, so that each sum is exact in any order: no element is near the middle of two integers.
STEP = 2**-4


def as_u8(x):
    """The tensor after its way through 8 bits."""
    return quantized.dequantize_per_tensor(quantized.quantize_per_tensor(x, STEP, 100, *U8), STEP, 100, *U8)


class Weight(nn.Module):
    """A weight in 8 bits, with a scale for each output, and a bias."""

    def __init__(self, *shape):
        super().__init__()
        draws = torch.Generator().manual_seed(sum(shape))
        self.register_buffer("weight", torch.randint(-50, 50, shape, dtype=torch.int8, generator=draws))
        self.register_buffer("scale", 2.0 ** torch.randint(-8, -5, shape[:1], generator=draws))
        self.register_buffer("zero_point", torch.zeros(shape[0], dtype=torch.int64))
        self.register_buffer("bias", torch.randint(-9, 9, shape[:1], generator=draws) / 8)

    def as_float(self):
        return quantized.dequantize_per_channel(self.weight, self.scale, self.zero_point, 0, *I8)


#: Inductor freezes the weights of modules that are the same in each call. So these are no inputs of the cases.
CONV = Weight(8, 3, 3, 3)
SECOND_CONV = Weight(8, 8, 3, 3)
LINEAR = Weight(16, 24)


def conv(x, weight=CONV):
    return conv2d(as_u8(x), weight.as_float(), weight.bias, padding=1)


def matched(layer):
    """The product is of integers, and what follows is part of it. torch 2.15 has no such patterns for products."""
    return {f"patterns.quantization.{layer}_weight_prepack_pass": 1, "extern": [f"onednn.{layer}_pointwise"]}


@case(
    x=tensor(2, 3, 9, 10),
    after={
        "to_8_bits": as_u8,
        "relu_to_8_bits": lambda y: as_u8(torch.relu(y)),
        "relu6_to_8_bits": lambda y: as_u8(functional.relu6(y)),
        "relu": torch.relu,
        "hardswish": functional.hardswish,
        "silu": functional.silu,
    },
    **FROZEN,
    require={"torch<2.14": matched("qconv")},
)
def test_conv(x, after):
    return after(conv(x))


# The second layer adds its result to that of the first one.
@case(
    x=tensor(2, 3, 9, 10),
    after={"to_8_bits": as_u8, "relu_to_8_bits": lambda y: as_u8(torch.relu(y)), "relu": torch.relu},
    **FROZEN,
    require={
        "torch<2.14": {
            "patterns.quantization.qconv_weight_prepack_pass": 2,
            "extern": ["onednn.qconv_pointwise", "onednn.qconv2d_pointwise"],
        }
    },
)
def test_residual_conv(x, after):
    y = as_u8(conv(x))
    return after(conv(y, SECOND_CONV) + y)


@case(
    x=tensor(5, 24),
    after={
        "to_8_bits": as_u8,
        "relu_to_8_bits": lambda y: as_u8(torch.relu(y)),
        "relu": torch.relu,
        "gelu": functional.gelu,
        "gelu_tanh": lambda y: functional.gelu(y, approximate="tanh"),
    },
    **FROZEN,
    require={"torch<2.14": matched("qlinear")},
)
def test_linear(x, after):
    return after(linear(as_u8(x), LINEAR.as_float(), LINEAR.bias))


@case(
    x=tensor(2, 24, 5),
    form={
        "rows": lambda x: linear(as_u8(x.mT.contiguous()), LINEAR.as_float(), LINEAR.bias),
        "transposed": lambda x: linear(as_u8(x.mT), LINEAR.as_float(), LINEAR.bias),
        "no_bias": lambda x: linear(as_u8(x[0].t().contiguous()), LINEAR.as_float()),
    },
    **FROZEN,
    require={"torch<2.14": matched("qlinear")},
)
def test_rows(x, form):
    return form(x)


@case(
    x=tensor(5, 24),
    other=tensor(5, 16),
    after={
        "add": lambda y: y,
        "add_relu": torch.relu,
        "add_to_8_bits": as_u8,
    },
    **FROZEN,
    require={"torch<2.14": matched("qlinear")},
)
def test_linear_and_other(x, other, after):
    return after(linear(as_u8(x), LINEAR.as_float(), LINEAR.bias) + (other * 8).round() / 8)


# `other` is an input of the program, which must stay as it is.
@case(
    x=tensor(5, 24),
    other=tensor(5, 16),
    after={"add": lambda y: y, "add_relu": torch.relu},
    **FROZEN,
    require={"torch<2.14": matched("qlinear")},
)
def test_linear_and_input(x, other, after):
    return after(linear(as_u8(x), LINEAR.as_float(), LINEAR.bias) + other)


# The scale and the zero point are tensors, which the program computes.
@case(x=tensor(5, 24), scale=tensor(shape=(), low=0.02, high=0.1), **FROZEN, require={"torch<2.14": matched("qlinear")})
def test_linear_with_computed_scale(x, scale):
    zero_point = torch.full_like(scale, 7, dtype=torch.int64)
    bits = quantized.quantize_per_tensor.tensor(x, scale, zero_point, *U8)
    return linear(quantized.dequantize_per_tensor.tensor(bits, scale, zero_point, *U8), LINEAR.as_float(), LINEAR.bias)


# None of these operators needs the float values.
@case(
    x=tensor(2, 8, 6, 8),
    function={
        "max_pool": lambda x: functional.max_pool2d(x, 2),
        "cat": lambda x: torch.cat((x, as_u8(x.flip(0))), 1),
        "reshape": lambda x: x.reshape(2, 8, 48),
    },
    **FROZEN,
    require={
        "max_pool": {"patterns.quantization.quantized_maxpool2d_lowering": 1},
        "cat torch<2.14": {"patterns.quantization.quantized_cat_lowering": 1},
        "reshape": {"patterns.quantization.quantized_reshape_lowering": 1},
    },
)
def test_in_8_bits(x, function):
    return as_u8(function(as_u8(x)))


# The 8 bits are of the result of the layer, before its heads are moved apart. An exported program has these views.
@case(
    x=tensor(2, 5, 24),
    **FROZEN,
    require={"all": {"patterns.quant_lift_up_count": 1}, "torch<2.14": matched("qlinear")},
)
def test_heads(x):
    y = linear(as_u8(x), LINEAR.as_float(), LINEAR.bias)
    heads = torch.ops.aten.transpose.int(torch.ops.aten.view.default(y, [2, 5, 4, 4]), 1, 2)
    return quantized.dequantize_per_tensor.default(
        quantized.quantize_per_tensor.default(heads, STEP, 100, *U8), STEP, 100, *U8
    )
