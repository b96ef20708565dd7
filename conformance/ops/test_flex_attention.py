"""flex_attention: attention with a function of each score, and with a block mask; Inductor has a template for it.

No case has a gradient: PyTorch refuses it on the CPU, where the float64 reference is computed. Without that reference,
only the floor of the policy counts, and the template's gradient is up to 12 ulp from eager's.
"""

import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from conformance import case, tensor

#: (batch, heads, tokens, features of a head)
QKV = {name: tensor(1, 2, 128, 16) for name in "qkv"}
HUGE = {"huge": "the kernel scales scores for powers of 2, so they overflow earlier"}
#: On cpu only test_plain: the C++ compiler takes seconds for each of PyTorch's kernels there.
ONLY = {"gpu": "each such kernel takes seconds to build on cpu, so only test_plain in f32 runs there"}
#: The number of kernels is not required: small kernels make the empty block mask, other ones on cpu.
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
    only={**ONLY, **dict.fromkeys(("cpu_avx2 f32", "cpu_avx512 f32"), "one dtype is enough, and Inductor refuses Arm")},
    require=TEMPLATE,
    numerics={"for": {"gpu": {"without": HUGE}}},
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


# A fallback sorts the blocks.
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


def half_in_the_first(batch, _head, _query, key):
    return (key < 128) | (batch > 0)


@case(
    q=tensor(2, 1, 128, 16),
    **{name: tensor(2, 1, 256, 16) for name in "kv"},
    only=ONLY,
    require=TEMPLATE,
    numerics={"without": HUGE},
)
def test_mask_of_batches(q, k, v):
    blocks = create_block_mask(half_in_the_first, 2, None, 128, 256, device=q.device, BLOCK_SIZE=128)
    return flex_attention(q, k, v, block_mask=blocks)
