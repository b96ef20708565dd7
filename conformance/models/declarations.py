"""What the cases of models share: the axes that they vary, and the requirement that attention is one fused call."""

#: Inference in float32, bfloat16 and autocast, and with dynamic shapes; a training step in float32.
VARIED = {
    "dtype": ["f32", "bf16"],
    "grad": [False, True],
    "mode": ["plain", "autocast"],
    "dynamic": [False, True],
    "vary": "one_at_a_time",
}

_ATTENTION = "fallbacks.aten._scaled_dot_product_"
_FUSED = {
    "cpu": "flash_attention_for_cpu",
    "cuda f32 plain": "efficient_attention",
    "cuda bf16": "flash_attention",
    "cuda autocast": "flash_attention",
    "xpu forward": "fused_attention_overrideable",  # torch has no fused backward for xpu
}
#: The same where attention has a mask: flash attention takes none on cuda.
_FUSED_WITH_MASK = _FUSED | {"cuda bf16": "efficient_attention", "cuda autocast": "efficient_attention"}


def with_fused_attention(require, calls=1, *, masked=False):
    """The requirements, and that attention is so many fused calls and no matrix products with a softmax in between.

    `masked`: whether attention has a mask that is a tensor.
    """
    names = _FUSED_WITH_MASK if masked else _FUSED
    fused = {selector: {_ATTENTION + name: calls} for selector, name in names.items()}
    return {selector: require.get(selector, {}) | fused.get(selector, {}) for selector in (*require, *fused)}
