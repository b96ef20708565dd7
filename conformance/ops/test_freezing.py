"""freezing: layers whose weights are constants, so that Inductor computes with them while it compiles.

oneDNN gets the weights in its own layout, and the activation behind a layer is part of the call (mkldnn_fusion.py of
torch/_inductor/fx_passes). A batch norm, or a number for each channel, goes into the weights (binary_folding.py), and
layers with one input become one product (freezing_patterns.py).
"""

import torch
from torch import nn
from torch.nn import functional

from conformance import case, tensor

X86 = "on ARM and on GPUs PyTorch has other libraries than oneDNN and MKL"
#: Inductor freezes weights without gradients alone.
FROZEN = {
    "config": {"frozen": {"freezing": True}},
    "mode": "no_grad",
    "only": {"cpu_avx2": X86, "cpu_avx512": X86},
}


def drawn(layer):
    """The layer in evaluation; its weights and statistics are the same in each process."""
    draws = torch.Generator().manual_seed(0)
    for name, value in layer.state_dict().items():
        if value.is_floating_point():
            low = 0.5 if name.endswith("running_var") else -0.5
            value.copy_(torch.rand(value.shape, generator=draws) + low)
    return layer.eval()


#: Inductor freezes the weights of modules that are the same in each call. So these are no inputs of the cases.
CONV = drawn(nn.Conv2d(3, 12, 3))
SECOND_CONV = drawn(nn.Conv2d(12, 12, 3))
TRANSPOSED_CONV = drawn(nn.ConvTranspose2d(12, 12, 3))
CONV_1D = drawn(nn.Conv1d(12, 16, 3))
BATCH_NORM = drawn(nn.BatchNorm2d(12))
LINEAR = drawn(nn.Linear(24, 16))
HEADS = [drawn(nn.Linear(24, 16)) for _ in range(3)]
LSTM = drawn(nn.LSTM(24, 16))
NUMBERS = drawn(
    nn.ParameterDict({"channels": torch.rand(12, 1, 1), "row": torch.rand(1, 12), "features": torch.rand(16)})
)


# The function of a case converts weights to the dtype of its input, which is float64 in the reference of numerics.
def conv(x, layer=CONV, function=functional.conv2d, padding=1):
    return function(x, layer.weight.to(x.dtype), layer.bias.to(x.dtype), padding=padding)


def batch_norm(x):
    norm = BATCH_NORM
    numbers = (norm.running_mean, norm.running_var, norm.weight, norm.bias)
    return functional.batch_norm(x, *(value.to(x.dtype) for value in numbers))


def linear(x, layer=LINEAR, bias=True):
    return functional.linear(x, layer.weight.to(x.dtype), layer.bias.to(x.dtype) if bias else None)


def number(name, x):
    return NUMBERS[name].to(x.dtype)


ACTIVATIONS = {
    "relu": torch.relu,
    "gelu": functional.gelu,
    "gelu_tanh": lambda y: functional.gelu(y, approximate="tanh"),
    "hardswish": functional.hardswish,
    "leaky_relu": lambda y: functional.leaky_relu(y, 0.1),
    "hardtanh": lambda y: functional.hardtanh(y, -0.5, 0.5),
}


def one_call(operator, *patterns):
    """This call of oneDNN alone is left, and each of these patterns matched once."""
    return {"extern": [operator], "kernels": 0, "graph_breaks": 0} | dict.fromkeys(patterns, 1)


UNARY = "patterns.mkldnn_unary_fusion_matcher_count"
BINARY = "patterns.mkldnn_conv_binary_unary_fusion_matcher_count"


@case(
    x=tensor(2, 3, 9, 10, layout="channels_last"),
    after=ACTIVATIONS,
    **FROZEN,
    require={"all": one_call("mkldnn._convolution_pointwise", UNARY)},
)
def test_conv(x, after):
    return after(conv(x))


def residual(x, other):
    y = conv(x)
    return torch.relu(conv(torch.cos(y), SECOND_CONV) + y)


# In "residual" the sum overwrites the first result; `other` must stay as it is.
@case(
    x=tensor(2, 3, 9, 10, layout="channels_last"),
    other=tensor(2, 12, 9, 10, layout="channels_last"),
    form={
        "add": lambda x, other: conv(x) + other,
        "add_relu": lambda x, other: torch.relu(other + conv(x)),
        "sub": lambda x, other: conv(x) - other,
        "residual": residual,
    },
    **FROZEN,
    require={
        "all": {"kernels": 0, "graph_breaks": 0, BINARY: 1},
        "residual": {"kernels": 1, "extern.mkldnn._convolution_pointwise_": 1},
    },
)
def test_conv_and_other(x, other, form):
    return form(x, other)


# With a fixed number of rows, MKL has the product, without an activation.
@case(x=tensor(5, 24), **FROZEN, require={"all": {"extern": ["mkl._mkl_linear"], "kernels": 1}})
def test_linear_of_fixed_size(x):
    return torch.relu(linear(x))


@case(
    x=tensor(2, 5, 24),
    after=ACTIVATIONS,
    dynamic=True,
    **FROZEN,
    require={
        "all": one_call("mkldnn._linear_pointwise", UNARY, "patterns.mkldnn_reshape_linear_reshape_matcher_count")
    },
)
def test_linear(x, after):
    return after(linear(x))


@case(
    x=tensor(5, 24),
    other=tensor(5, 16),
    form={
        "add": lambda x, other: linear(x) + other,
        "sub": lambda x, other: linear(x) - other,
        "bias_apart": lambda x, _: linear(x, bias=False) + LINEAR.bias.to(x.dtype),
    },
    dynamic=True,
    **FROZEN,
    require={
        "add": one_call("mkldnn._linear_pointwise", BINARY),
        "sub": one_call("mkldnn._linear_pointwise", BINARY),
        "bias_apart": one_call("mkldnn._linear_pointwise", "patterns.mkldnn_linear_bias_matcher_count"),
    },
)
def test_linear_and_other(x, other, form):
    return form(x, other)


# The weight is converted once, while Inductor compiles.
@case(
    x=tensor(5, 2, 24),
    **FROZEN
    | {
        "config": {"frozen": {"freezing": True, "dynamo.allow_rnn": True}},
        "numerics": {"reference": "eager", "reason": "the module stays in float32"},
    },
    require={"all": {"patterns.mkldnn_rnn_weight_pack_matcher_count": 1, "graph_breaks": 0}},
)
def test_lstm(x):
    return LSTM(x)[0]


def heads(x, count=3, bias=True):
    return [linear(x, head, bias) for head in HEADS[:count]]


# The weights of layers with one input are joined: one product.
@case(
    x=tensor(5, 24),
    form={
        "bias": lambda x: sum(heads(x)),
        "without_bias": lambda x: sum(heads(x, bias=False)),
        "two": lambda x: sum(heads(x, 2, bias=False)),
        "apart": heads,
    },
    **FROZEN | {"config": {"joined": {"freezing": True, "cpp.enable_concat_linear": True}}},
    require={"all": {"extern": ["mkl._mkl_linear"], "patterns.freezing_patterns": 1}},
)
def test_heads(x, form):
    return form(x)


PACKED_BF16 = "oneDNN packs weights of bfloat16 only on a processor with AVX-512"
GROUPED = {
    "freezing": True,
    "max_autotune": True,
    "max_autotune_gemm_backends": "CPP",
    "cpp.enable_grouped_gemm_template": True,
}


# One kernel from a template has the products, with what follows each.
@case(
    x=tensor(8, 24, dtype="bf16"),
    **FROZEN | {"config": {"grouped": GROUPED}, "only": {"cpu_avx512": PACKED_BF16}},
    require={
        "all": {"extern": [], "fallbacks": [], "kernels": 1, "graph_breaks": 0},
        "cpu_amx": {"patterns.cpp_micro_gemm_amx_counter": ">=1"},
    },
)
def test_grouped_heads(x):
    return [torch.relu(y) for y in heads(x)]


# What follows a layer is in its weights: no kernel is left.
@case(
    x=tensor(2, 3, 9, 10, layout="channels_last"),
    after={
        "batch_norm": batch_norm,
        "mul": lambda y: y * number("channels", y),
        "sub": lambda y: y - number("channels", y),
        "div": lambda y: y / 2.5,
    },
    **FROZEN,
    require={
        "all": one_call("mkldnn._convolution_pointwise") | {"patterns.binary_folding_conv": 1},
        "batch_norm": {"patterns.binary_folding_conv": 4},
    },
)
def test_folded_into_conv(x, after):
    return after(conv(x))


# The weight and the number are multiplied in float32; the product is rounded to bfloat16 once.
@case(
    x=tensor(2, 12, 9, dtype="bf16"),
    **FROZEN,
    require={"all": {"patterns.binary_folding_conv": 1, "patterns.freezing_patterns.unnecessary_dtype_convert": 1}},
)
def test_folded_in_higher_precision(x):
    return (conv(x, CONV_1D, functional.conv1d) * NUMBERS["features"][:, None]).to(x.dtype)


# A number for each channel of the result is none for each channel of the input.
@case(x=tensor(2, 12, 6, 6, layout="channels_last"), **FROZEN)
def test_mul_after_transposed_conv(x):
    return conv(x, TRANSPOSED_CONV, functional.conv_transpose2d) * number("channels", x)


# A number for each column, of which there are as many as channels.
@case(x=tensor(2, 12, 6, 12, layout="channels_last"), **FROZEN)
def test_mul_of_columns(x):
    return conv(x, SECOND_CONV) * number("row", x)


@case(
    x=tensor(2, 5, 24),
    form={
        "mul": lambda x: linear(x) * number("features", x),
        "add": lambda x: linear(x[0], bias=False) + number("features", x),
        "div": lambda x: linear(x, bias=False) / 2.5,
    },
    **FROZEN | {"config": {"folded": {"freezing": True, "enable_linear_binary_folding": True}}},
    require={"all": {"patterns.binary_folding": 1}},
)
def test_folded_into_linear(x, form):
    return form(x)
