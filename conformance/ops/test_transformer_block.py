"""transformer_block: blocks of attention and MLP as modules, of lengths and sizes that are not round."""

import torch
from torch import nn

from conformance import case, module, references, tensor

ONE_GRAPH = {"graph_breaks": 0}


class Attention(nn.Module):
    """Causal attention of several heads, with one projection for queries, keys and values."""

    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim, bias=False)

    def forward(self, x):
        qkv = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(*qkv, is_causal=True)
        return self.out(y.transpose(1, 2).flatten(-2))


class RMSNorm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return (x.float() * torch.rsqrt(x.float().square().mean(-1, keepdim=True) + 1e-5)).to(x.dtype) * self.weight


class SwiGLU(nn.Module):
    """The MLP of Llama: one branch is the gate of the other one."""

    def __init__(self, dim, hidden):
        super().__init__()
        self.gate, self.up = nn.Linear(dim, hidden, bias=False), nn.Linear(dim, hidden, bias=False)
        self.down = nn.Linear(hidden, dim, bias=False)

    def forward(self, x):
        return self.down(nn.functional.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    def __init__(self, dim, heads, hidden):
        super().__init__()
        self.norms = nn.ModuleList([RMSNorm(dim), RMSNorm(dim)])
        self.attention, self.mlp = Attention(dim, heads), SwiGLU(dim, hidden)

    def forward(self, x):
        x = x + self.attention(self.norms[0](x))
        return x + self.mlp(self.norms[1](x))


# x: (batch, length, features).
@case(
    block=module(Block, 36, 3, hidden=53),
    x=tensor(2, 13, 36),
    dtype=["f32", "bf16"],
    grad=[False, True],
    vary="one_at_a_time",
    require={"all": ONE_GRAPH},
)
def test_block(block, x):
    return block(x)


# The lengths that attention's kernels are not made for.
@case(
    attention=module(Attention, 36, 3),
    x=tensor(shape=[(1, 37, 36), (2, 1, 36)]),
    grad=True,
    require={"all": ONE_GRAPH},
)
def test_attention(attention, x):
    return attention(x)


@case(
    mlp=module(SwiGLU, 36, hidden=53),
    x=tensor(7, 36),
    dynamic=[False, True],
    grad=True,
    require={"all": ONE_GRAPH, "gpu": {"fallbacks": []}},
)
def test_mlp(mlp, x):
    return mlp(x)


# PyTorch's own layer.
@case(
    layer=module(nn.TransformerEncoderLayer, 36, 3, 53, dropout=0.0, batch_first=True, norm_first=True),
    x=tensor(2, 13, 36),
    training=True,
    grad=[False, True],
    require={"all": ONE_GRAPH},
)
def test_encoder_layer(layer, x):
    return layer(x)


# need_weights: the weights of all heads, as a second output.
@case(
    attention=module(nn.MultiheadAttention, 36, 3, batch_first=True),
    x=tensor(2, 5, 36),
    memory=tensor(2, 13, 36),
    grad=True,
    require={"all": ONE_GRAPH},
)
def test_multihead_attention(attention, x, memory):
    return attention(x, memory, memory, average_attn_weights=False)


test_references = references(test_block, test_mlp, test_multihead_attention)
