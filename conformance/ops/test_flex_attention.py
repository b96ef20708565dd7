"""flex_attention: attention with a function of each score, and a mask of blocks; Inductor has a template for it.

Without gradients: an item with the backward's template takes 7 s to interpret, and its text is 11,000 lines.
"""

import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from conformance import case, tensor

#: batch, heads, tokens, features of a head
QKV = {name: tensor(1, 2, 128, 16) for name in "qkv"}
HUGE = {"huge": "scores are scaled to powers of 2, and overflow earlier"}
#: On the cpu, test_plain alone: PyTorch's kernel there includes so much that the compiler takes seconds for each.
ONLY = {"gpu": "on the cpu test_plain is looked at in f32, since each such kernel takes seconds to build there"}
#: The empty mask of blocks is made by small kernels beside it, and on the cpu by others.
TEMPLATE = {"all": {"graph_breaks": 0}, "gpu": {"kinds.template": 1, "extern": []}}


def relative(score, _batch, _head, query, key):
    return score + (query - key) * 0.1


def capped(score, _batch, _head, _query, _key):
    return 5 * torch.tanh(score / 5)


def causal(_batch, _head, query, key):
    return query >= key


def window(_batch, _head, query, key):
    return (query - key).abs() <= 20


@case(
    **QKV,
    dtype=["f32", "bf16"],
    only={**ONLY, "cpu f32": "one is enough"},
    require=TEMPLATE,
    numerics={"without": HUGE},
)
def test_plain(q, k, v):
    return flex_attention(q, k, v)


@case(
    **QKV,
    score_mod={"relative": relative, "capped": capped},
    only=ONLY,
    require=TEMPLATE,
    numerics={"without": HUGE},
)
def test_score_mod(q, k, v, score_mod):
    return flex_attention(q, k, v, score_mod=score_mod)


@case(**QKV, bias=tensor(128, 128), only=ONLY, require=TEMPLATE, numerics={"without": HUGE})
def test_bias(q, k, v, bias):
    def biased(score, _batch, _head, query, key):
        return score + bias[query, key]

    return flex_attention(q, k, v, score_mod=biased)


# Its blocks are sorted, by a fallback.
@case(
    **QKV,
    mask={"causal": causal, "window": window},
    only=ONLY,
    require=TEMPLATE,
    numerics={"without": HUGE},
)
def test_block_mask(q, k, v, mask):
    blocks = create_block_mask(mask, None, None, 128, 128, device=q.device, BLOCK_SIZE=128)
    return flex_attention(q, k, v, block_mask=blocks)


@case(
    q=tensor(1, 4, 128, 16),
    **{name: tensor(1, 2, 128, 16) for name in "kv"},
    only=ONLY,
    require=TEMPLATE,
    numerics={"without": HUGE},
)
def test_grouped_heads(q, k, v):
    return flex_attention(q, k, v, enable_gqa=True, scale=0.5)
