"""What the cases of models share: the axes that they vary, and the requirement that attention is one fused call."""

#: Inference in float32, bfloat16 and autocast, and with dynamic shapes; a training step in float32 and in autocast.
VARIED = {
    "dtype": ["f32", "bf16"],
    "grad": [False, True],
    "mode": ["plain", "autocast"],
    "dynamic": [False, True],
    "vary": "one_at_a_time",
    "also": [{"mode": "autocast", "grad": True}],
}

#: For numerics={"without": OVERFLOWS}, where inputs are floating numbers.
OVERFLOWS = {
    "huge": "whether the square of a large number overflows depends on the order of the operations",
    "full_range": "whether the square of a large number overflows depends on the order of the operations",
}

_ATTENTION = "fallbacks.aten._scaled_dot_product_"
_FUSED = {
    "cpu": "flash_attention_for_cpu",
    "cuda f32 plain": "efficient_attention",
    "cuda bf16": "flash_attention",
    "cuda autocast": "flash_attention",
    "xpu forward": "fused_attention_overrideable",  # torch has no fused backward for xpu
}
#: The same where attention has a mask: torch then prefers cuDNN on cuda, where the GPU has its kernel.
_FUSED_WITH_MASK = {
    "cpu": "flash_attention_for_cpu",
    "cuda f32 plain": "efficient_attention",
    "cuda_sm80 bf16": "efficient_attention",
    "cuda_sm80 autocast": "efficient_attention",
    "cuda_sm90 bf16": "cudnn_attention",
    "cuda_sm90 autocast": "cudnn_attention",
    "cuda_sm100 bf16": "cudnn_attention",
    "cuda_sm100 autocast": "cudnn_attention",
    "xpu forward": "fused_attention_overrideable",
}


def with_fused_attention(require, calls=1, *, masked=False):
    """The requirements, and that attention is so many fused calls and no matrix products with a softmax in between.

    `masked`: whether attention has a mask that is a tensor.
    """
    names = _FUSED_WITH_MASK if masked else _FUSED
    fused = {selector: {_ATTENTION + name: calls} for selector, name in names.items()}
    return {selector: require.get(selector, {}) | fused.get(selector, {}) for selector in (*require, *fused)}
