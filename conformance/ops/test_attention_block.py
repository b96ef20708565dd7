"""attention_block: attention as models use it: of lengths that are no multiple of a block, between projections."""

from torch.nn.functional import gelu, layer_norm, linear, scaled_dot_product_attention

from conformance import case, tensor

#: Kernels pad what they keep for the backward to a multiple of 32: one block and a bit, four and one.
LENGTHS = [37, 129]
HEADS = 4
SIZE = 16
WIDTH = HEADS * SIZE

CPU_KERNEL = "aten._scaled_dot_product_flash_attention_for_cpu"
NO_BREAKS = {"all": {"graph_breaks": 0}}
#: No product of matrices is left: each is part of a fused kernel. xpu has no fused gradient in float32.
FUSED = NO_BREAKS | {
    "cpu": {"fallbacks": [CPU_KERNEL, f"{CPU_KERNEL}_backward"], "extern": []},
    "cuda": {"extern": []},
}

#: xpu has no fused gradient in float32: Inductor compiles the definition of attention.
NEARLY_ONE = "where a key has nearly the whole softmax, its gradient is the difference of two nearly equal numbers"
SATURATED = "for scores beyond 1 / eps, rounding decides which key wins"


def of_length(length: int, heads: int = HEADS) -> tuple[int, ...]:
    """(batch, heads, tokens, features of a head)"""
    return (2, heads, length, SIZE)


@case(
    **{name: tensor() for name in "qkv"},
    shape={str(length): of_length(length) for length in LENGTHS},
    is_causal={"full": False, "causal": True},
    dtype=["f32", "bf16"],
    grad=[True, False],
    vary="one_at_a_time",
    also=[
        {"dtype": "bf16", "is_causal": "causal"},
        {"dtype": "bf16", "shape": "129"},
        {"dtype": "bf16", "grad": False},
    ],
    require=NO_BREAKS
    | {
        "forward": {"kernels": 0, "extern": []},
        "cpu forward": {"fallbacks": [CPU_KERNEL]},
        "cpu backward": FUSED["cpu"],
        "cuda": {"kernels": 0, "extern": []},
        "xpu bf16": {"extern": []},
    },
)
def test_attention(q, k, v, is_causal):
    return scaled_dot_product_attention(q, k, v, is_causal=is_causal)


# A mask of which no row begins at a multiple of 8 elements: kernels take a copy with longer rows.
@case(
    q=tensor(2, HEADS, 37, SIZE),
    **{name: tensor(2, HEADS, 65, SIZE) for name in "kv"},
    mask=tensor(37, 65, dtype={"boolean": "bool", "additive": None}),
    dtype=["f32", "bf16"],
    grad="q k v",
    require=FUSED,
    numerics={"for": {"xpu f32": {"without": {"edges": NEARLY_ONE}}}},
)
def test_masked(q, k, v, mask):
    return scaled_dot_product_attention(q, k, v, attn_mask=mask)


# The mask is learned, so it has a gradient. The fused kernels of cpu and xpu have none, so Inductor compiles the
# definition of attention there.
@case(
    q=tensor(2, HEADS, 37, SIZE),
    **{name: tensor(2, HEADS, 65, SIZE) for name in "kv"},
    bias=tensor(HEADS, 37, 65),
    grad=True,
    require=NO_BREAKS | {"cuda": {"extern": []}},
    numerics={"for": {"cpu": {"without": {"edges": NEARLY_ONE}}, "xpu": {"without": {"edges": NEARLY_ONE}}}},
)
def test_learned_bias(q, k, v, bias):
    return scaled_dot_product_attention(q, k, v, attn_mask=bias)


@case(
    q=tensor(2, HEADS, 37, SIZE),
    **{name: tensor(2, 2, 37, SIZE) for name in "kv"},
    is_causal={"full": False, "causal": True},
    dtype=["f32", "bf16"],
    grad=True,
    vary="one_at_a_time",
    # No kernel for cuda shares heads in float32.
    require=NO_BREAKS | {"cpu": FUSED["cpu"], "gpu bf16": {"extern": []}},
)
def test_grouped_heads(q, k, v, is_causal):
    return scaled_dot_product_attention(q, k, v, is_causal=is_causal, enable_gqa=True)


def attended(x, w_qkv, w_out):
    batch, length, _ = x.shape
    q, k, v = linear(x, w_qkv).view(batch, length, 3, HEADS, SIZE).permute(2, 0, 3, 1, 4)
    heads = scaled_dot_product_attention(q, k, v, is_causal=True)
    return linear(heads.transpose(1, 2).reshape(batch, length, WIDTH), w_out)


BLOCK = {
    "w_qkv": tensor(3 * WIDTH, WIDTH, low=-0.2, high=0.2),
    "w_out": tensor(WIDTH, WIDTH, low=-0.2, high=0.2),
    "w_up": tensor(4 * WIDTH, WIDTH, low=-0.2, high=0.2),
    "w_down": tensor(WIDTH, 4 * WIDTH, low=-0.2, high=0.2),
    "scale": tensor(WIDTH),
    "numerics": {"without": {"exponents": SATURATED, "full_range": SATURATED}},
}


def block(x, w_qkv, w_out, w_up, w_down, scale):
    """A block of a transformer."""
    x = x + attended(layer_norm(x, (WIDTH,), scale), w_qkv, w_out)
    return x + linear(gelu(linear(layer_norm(x, (WIDTH,), scale), w_up)), w_down)


# A kernel for each norm (the second with the sum before it), for gelu and for the last sum.
@case(
    x=tensor(2, 37, WIDTH),
    **BLOCK,
    dtype=["f32", "bf16"],
    grad=[True, False],
    vary="one_at_a_time",
    require=NO_BREAKS | {"forward": {"kernels": 4, "extern": ["mm"] * 4}},
)
def test_block(x, w_qkv, w_out, w_up, w_down, scale):
    return block(x, w_qkv, w_out, w_up, w_down, scale)


# The code is that of test_block, with other numbers: it is not stored.
@case(
    x=tensor(2, 65, WIDTH),
    **BLOCK,
    grad=True,
    checks=["numerics", "requirements"],
    require=NO_BREAKS,
)
def test_longer_block(x, w_qkv, w_out, w_up, w_down, scale):
    return block(x, w_qkv, w_out, w_up, w_down, scale)
