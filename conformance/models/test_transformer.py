"""transformer: PyTorch's own nn.Transformer: its encoder layer, its decoder layer, and both together."""

import torch
from torch import nn

from conformance import case, module, tensor
from conformance.models.declarations import HUGE_OVERFLOWS, limited_since_2_13

ONE_GRAPH = {"graph_breaks": 0}
_ATTENTION = "fallbacks.aten._scaled_dot_product_"
ON_CPU, ON_CUDA = _ATTENTION + "flash_attention_for_cpu", _ATTENTION + "efficient_attention"

#: Heads of 16 features. Dropout would draw other numbers in eager than in compiled code.
LAYER = {"d_model": 48, "nhead": 3, "dim_feedforward": 53, "dropout": 0.0, "batch_first": True}
ROUNDED = "large scores make softmax a step, whose gradient is 0: eager has rounding errors times large numbers there"


def encoder_layer(**options):
    return nn.TransformerEncoderLayer(**LAYER | options)


def decoder_layer():
    return nn.TransformerDecoderLayer(**LAYER)


def both():
    return nn.Transformer(**LAYER, num_encoder_layers=1, num_decoder_layers=1)


def causal_mask(x):
    return nn.Transformer.generate_square_subsequent_mask(x.size(1), device=x.device, dtype=x.dtype)


def padding(x):
    """True for the tokens that are padding: the last two of the first sequence, the last one of the second."""
    lengths = torch.arange(x.size(0), device=x.device) + x.size(1) - 2
    return torch.arange(x.size(1), device=x.device) >= lengths[:, None]


# x: (batch, length, features). GELU, because ReLU jumps: a number near 0 may have another sign in bfloat16.
@case(
    layer=module(encoder_layer, norm_first=True, activation="gelu"),
    x=tensor(2, 13, 48),
    training=True,
    grad=True,
    dtype=["f32", "bf16"],
    mode=["plain", "autocast"],
    dynamic=[False, True],
    vary="one_at_a_time",
    require=limited_since_2_13(
        {
            "all": ONE_GRAPH | {"bytes": "<=2.35", "buffers": "<=48"},
            "cpu": {ON_CPU: 1, ON_CPU + "_backward": 1, "extern.bmm": 0},
            "cpu plain": {"kernels": "<=11"},
            "cuda": {"extern.bmm": 0},  # attention is one call; by hand it would be products of matrices
            "cuda f32 plain": {ON_CUDA: 1, ON_CUDA + "_backward": 1, "kernels": "<=17"},
            "cuda bf16": {"kernels": "<=16"},
            "xpu bf16": {"kernels": "<=20", "extern.bmm": 0},
            "xpu f32 plain": {"bytes": "<=2.6"},  # no fused backward
        }
    ),
    numerics={"without": HUGE_OVERFLOWS},
)
def test_encoder_training(layer, x):
    return layer(x, src_mask=causal_mask(x), is_causal=True)


@case(
    layer=module(encoder_layer),
    x=tensor(2, 13, 48),
    dtype=["f32", "bf16"],
    training=False,
    require=limited_since_2_13(
        {
            "all": ONE_GRAPH | {"bytes": "<=3.2"},
            "cpu": {ON_CPU: 1, "kernels": "<=4", "vectorised": "yes"},
            "cuda f32": {ON_CUDA: 1},
            "gpu": {"kernels": "<=8", "extern.bmm": "<=1"},  # with attention by hand, 3
        }
    ),
    numerics={"without": HUGE_OVERFLOWS},
)
def test_encoder(layer, x):
    return layer(x, src_key_padding_mask=padding(x))


@case(
    layer=module(decoder_layer),
    x=tensor(2, 11, 48),
    memory=tensor(2, 13, 48),
    training=False,
    require=limited_since_2_13(
        {
            "all": ONE_GRAPH | {"bytes": "<=3.3"},
            "cpu": {ON_CPU: 2, "kernels": "<=6", "vectorised": "yes"},
            "cuda": {ON_CUDA: 2, "kernels": "<=13"},
            "xpu": {_ATTENTION + "fused_attention_overrideable": 2, "kernels": "<=11"},
        }
    ),
    numerics={"without": HUGE_OVERFLOWS},
)
def test_decoder(layer, x, memory):
    return layer(x, memory, tgt_mask=causal_mask(x), tgt_is_causal=True, memory_key_padding_mask=padding(memory))


@case(
    net=module(both),
    x=tensor(2, 13, 48),
    y=tensor(2, 11, 48),
    training=True,
    grad=True,
    require=limited_since_2_13(
        {
            "all": ONE_GRAPH | {"bytes": "<=2.6"},
            "cpu": {ON_CPU: 3, ON_CPU + "_backward": 3, "kernels": "<=29", "buffers": "<=96"},
            "cuda": {ON_CUDA: 3, ON_CUDA + "_backward": 3, "kernels": "<=47", "buffers": "<=83"},
            "xpu": {"kernels": "<=61"},
        }
    ),
    numerics={"without": {"exponents": ROUNDED}},
)
def test_transformer(net, x, y):
    return net(x, y, tgt_mask=causal_mask(y), tgt_is_causal=True)
