"""sdpa: scaled_dot_product_attention, which calls a fused kernel, and attention by hand, which should call it too."""

import itertools
import math

import torch
from expecttest import assert_expected_inline
from torch.nn.functional import scaled_dot_product_attention

from conformance import case, explanation, references, tensor

DTYPES = ["f16", "bf16", "f32"]

#: (batch, heads, tokens, features of a head)
SHAPE = (2, 4, 64, 64)
QKV = {name: tensor(*SHAPE) for name in "qkv"}

#: None: the dtype of the case. A mask that is added to the scores must have it.
MASKS = {"boolean": "bool", "additive": None}

CPU_KERNEL = "aten._scaled_dot_product_flash_attention_for_cpu"
#: Of the devices that have a fused gradient. On xpu it is Intel's flash attention: not on Arc A and Lunar Lake.
FUSED_GRADIENT = {
    f"{device} f16 backward": {"kernels": 0, "extern": []} for device in ("cuda", "xpu_pvc", "xpu_bmg", "xpu_pvc_1100")
}

#: A head of 64 features needs no padding, a head of 65 does. Then the scale, which is that of the head without padding,
#: becomes a constant.
PADDED = {
    "recompiles": 1,
    "reason": "heads are padded to multiples of 8: a guard checks that, and the scale becomes a constant",
}
NEARLY_ONE = "where a key has nearly the whole softmax, its gradient is the difference of two nearly equal numbers"
ALIGNED = {
    "recompiles": 1,
    "reason": "the kernel's inputs are copied if they are not aligned: a guard checks for multiples of 8",
}


#: All combinations of what chooses a kernel. Dynamic shapes are an axis of their own.
BASE = {"dtype": "f16", "is_causal": "full", "scale": "default_scale", "grad": False}
COMBINATIONS = [
    dict(zip(BASE, values, strict=True))
    for values in itertools.product(DTYPES, ("full", "causal"), ("default_scale", "scale0.3"), (False, True))
]


@case(
    **QKV,
    dtype=DTYPES,
    is_causal={"full": False, "causal": True},
    scale={"default_scale": None, "scale0.3": 0.3},
    grad=[False, True],
    dynamic=[False, True],
    vary="one_at_a_time",
    also=[row for row in COMBINATIONS if sum(row[axis] != value for axis, value in BASE.items()) > 1],
    require={
        "all": {"graph_breaks": 0},
        # One fused kernel. On GPUs PyTorch chooses it by device, dtype and version; the snapshots show which one.
        "forward": {"kernels": 0, "extern": []},
        **FUSED_GRADIENT,
        "cuda f32 backward": {"kernels": 0, "extern": []},  # xpu has no fused gradient in float32
        "cpu forward": {"fallbacks": [CPU_KERNEL]},
        "cpu backward": {"fallbacks": [CPU_KERNEL, f"{CPU_KERNEL}_backward"]},
    },
    numerics={
        "for": {
            "cuda dynamic": PADDED,
            "xpu f16 dynamic": ALIGNED,
            "cuda causal backward": {
                "without": {
                    "expanded cotangents": "on cuda, eager takes another kernel for them; in theory the first "
                    "token's gradient is 0, and rounding decides what is left"
                }
            },
        }
    },
)
def test_sdpa(q, k, v, is_causal, scale):
    return scaled_dot_product_attention(q, k, v, is_causal=is_causal, scale=scale)


@case(
    **QKV,
    mask=tensor(64, 64, dtype=MASKS),
    dtype=["f16", "f32"],
    require={
        "all": {"extern": []},
        "cpu": {"fallbacks": [CPU_KERNEL]},
        "boolean": {"kernels": 1},  # it turns the mask into one that is added
        "cpu boolean": {"vectorised": "yes"},
        "additive": {"kernels": 0},
    },
)
def test_masked(q, k, v, mask):
    return scaled_dot_product_attention(q, k, v, attn_mask=mask)


@case(
    **QKV,
    mask=tensor(64, 64, dtype=MASKS),
    dtype=["f16", "f32"],
    grad="q k v",
    require={
        "all": {"graph_breaks": 0},
        "cpu": {"fallbacks": [CPU_KERNEL, f"{CPU_KERNEL}_backward"], "extern": []},
    },
    numerics={
        "for": {
            "xpu f16": {"without": {"exponents": NEARLY_ONE}},
            "xpu f16 additive": {
                "factor": 8,
                "reason": "without a fused gradient, compiled rounds probabilities to float16: emulated, 7.9 ulp",
            },
        }
    },
)
def test_masked_backward(q, k, v, mask):
    return scaled_dot_product_attention(q, k, v, attn_mask=mask)


@case(
    q=tensor(2, 8, 64, 64),
    **{name: tensor(2, 2, 64, 64) for name in "kv"},
    dtype=["f16", "f32"],
    # Heads are shared, not copied. But no kernel for cuda shares heads in float32, so there they are copied.
    require={
        "cpu": {"kernels": 0, "fallbacks": [CPU_KERNEL]},
        "xpu": {"kernels": 0, "extern": []},
        "cuda f16": {"kernels": 0, "extern": []},
    },
)
def test_grouped_heads(q, k, v):
    return scaled_dot_product_attention(q, k, v, enable_gqa=True)


HUGE = {"without": {"huge": "for scores beyond 1 / eps, rounding decides which key wins, and the kernel rounds later"}}
#: Measured on a CPU with AVX2 only: 92 ulp in one element of 32768, where 86 would be allowed.
REARRANGED = {
    "factor": 8,
    "reason": "the fused gradient computes the row sums of softmax from the result, eager from the probabilities",
}
FUSED = {"patterns.fuse_attention": 1, "kernels": 0, "extern": []}
#: On cuda fuse_attention matches float32 only if TF32 is allowed, because the fused kernels use it.
NOT_FUSED = {"patterns.fuse_attention": 0, "kernels": 1, "extern": ["bmm", "bmm"]}


@case(
    **{name: tensor() for name in "qkv"},
    shape={"batch2": SHAPE, "batch1": (1, *SHAPE[1:])},  # different patterns: with batch 1 nothing is cloned
    dtype=DTYPES,
    grad=[False, True],
    dynamic=[False, True],
    vary="one_at_a_time",
    also=[
        *({"dtype": dtype, "grad": True} for dtype in DTYPES[1:]),
        *({"shape": "batch1", "dtype": dtype} for dtype in DTYPES[1:]),
        *({"shape": "batch1", "dtype": dtype, "grad": True} for dtype in DTYPES),
    ],
    require={
        "forward": FUSED,
        "cpu forward": {"fallbacks": [CPU_KERNEL]},
        "cpu backward": {"fallbacks": [CPU_KERNEL, f"{CPU_KERNEL}_backward"]},
        **FUSED_GRADIENT,
        "cuda f32 forward": NOT_FUSED,
    },
    numerics=HUGE
    | {
        "for": {
            "cpu f32 backward": REARRANGED,
            "backward": {"without": HUGE["without"] | dict.fromkeys(("exponents", "negative", "positive"), NEARLY_ONE)},
            "xpu f16 dynamic": ALIGNED,
        }
    },
)
def test_by_hand(q, k, v):
    return torch.softmax(q @ k.mT / math.sqrt(SHAPE[-1]), dim=-1) @ v


@case(
    **QKV,
    mask=tensor(64, 64),
    dtype=["f16", "f32"],
    require={"all": FUSED, "cuda f32": NOT_FUSED},
)
def test_by_hand_masked(q, k, v, mask):
    return torch.softmax(q @ k.mT / math.sqrt(SHAPE[-1]) + mask, dim=-1) @ v


def test_story_which_kernel_does_attention_by_hand_become():
    answer = ""
    for target in ("cpu_avx512", "cuda_sm80", "cuda_sm90", "xpu_pvc"):
        facts = explanation(test_by_hand, "batch2-f16-forward-static", target=target).facts.splitlines()
        answer += target + next(line for line in facts if line.startswith("fallbacks")).removeprefix("fallbacks") + "\n"
    assert_expected_inline(
        answer,
        """\
cpu_avx512     aten._scaled_dot_product_flash_attention_for_cpu (make_fallback: no lowering)
cuda_sm80     aten._scaled_dot_product_flash_attention (make_fallback: no lowering)
cuda_sm90     aten._scaled_dot_product_cudnn_attention (make_fallback: no lowering)
xpu_pvc     aten._scaled_dot_product_fused_attention_overrideable (make_fallback: no lowering)
""",
    )


# A query without keys, values with fewer features than keys, and tensors without a batch.
ATTENDED = {
    "no_keys": lambda q, k, v: scaled_dot_product_attention(
        q, k, v, attn_mask=torch.ones(9, 9, device=q.device).tril(-1) > 0
    ),
    "narrow_values": lambda q, k, v: scaled_dot_product_attention(q, k, v[..., :8]),
    "no_keys_of_narrow_values": lambda q, k, v: scaled_dot_product_attention(
        q, k, v[..., :8], attn_mask=torch.ones(9, 9, device=q.device).tril(-1) > 0
    ),
    "three_dimensions": lambda q, k, v: scaled_dot_product_attention(q[0], k[0], v[0], dropout_p=0.0),
}


@case(
    **{name: tensor(2, 2, 9, 16) for name in "qkv"},
    attended=ATTENDED,
    require={"all": {"graph_breaks": 0}},
)
def test_attended(q, k, v, attended):
    return attended(q, k, v)


test_references = references(test_sdpa, test_masked, test_grouped_heads, test_attended)

# Similar to attention by hand: scaled by a whole number, or with a softmax of columns.
SIMILAR = {
    "whole_scale": lambda q, k, v: torch.softmax(q @ k.mT / 8, dim=-1) @ v,
    "of_columns": lambda q, k, v: torch.softmax(q @ k.mT / 8.0, dim=-2) @ v,
}


@case(
    **{name: tensor(2, 4, 32, 32) for name in "qkv"},
    attended=SIMILAR,
    grad=[False, True],
    require={"all": {"graph_breaks": 0}},
    numerics=HUGE,
)
def test_otherwise_by_hand(q, k, v, attended):
    return attended(q, k, v)


@case(
    **{name: tensor(2, 4, 32, 32) for name in "qkv"},
    mask=tensor(32, 32),
    scale=tensor(shape=(), low=0.5, high=2),
    require={"all": {"graph_breaks": 0}},
    numerics=HUGE,
)
def test_scale_of_a_tensor(q, k, v, mask, scale):
    return torch.softmax(q @ k.mT / scale + mask, dim=-1) @ v
