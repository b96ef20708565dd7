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

#: The same where only the largest numbers overflow.
HUGE_OVERFLOWS = {"huge": OVERFLOWS["huge"]}

_ATTENTION = "fallbacks.aten._scaled_dot_product_"
_NARROW = ("bf16", "autocast")


def with_fused_attention(require, calls=1, *, masked=False, head=16, since=""):
    """The requirements, and that attention is so many fused calls and no matrix products with a softmax in between.

    `masked`: whether attention has a mask that is a tensor. `head`: the features of a head. On newer GPUs of NVIDIA,
    torch prefers cuDNN, which needs a multiple of 8. torch has no fused backward of float32 for xpu.
    `since`: the torch versions for which it holds, such as "torch>=2.13"; all without it.
    """
    names = {"cpu": "flash_attention_for_cpu", "cuda f32 plain": "efficient_attention"}
    names |= {f"cuda_sm80 {label}": "efficient_attention" if masked else "flash_attention" for label in _NARROW}
    for target in ("cuda_sm90", "cuda_sm100"):
        names |= {f"{target} {label}": "cudnn_attention" if head % 8 == 0 else "flash_attention" for label in _NARROW}
    names["xpu forward"] = "fused_attention_overrideable"
    fused = {f"{selector} {since}".strip(): {_ATTENTION + name: calls} for selector, name in names.items()}
    return {selector: require.get(selector, {}) | fused.get(selector, {}) for selector in (*require, *fused)}


def limited_since_2_13(require):
    """The requirements, with all limits and `vectorised` for torch 2.13 and later alone: there they were measured.

    Older versions fuse less. What is no limit, such as graph breaks and fused attention, holds on each torch.
    """
    divided = {}
    for selector, facts in require.items():
        limits = {fact: value for fact, value in facts.items() if fact == "vectorised" or str(value).startswith("<=")}
        newer = "torch>=2.13" if selector == "all" else f"{selector} torch>=2.13"
        divided[selector] = {fact: value for fact, value in facts.items() if fact not in limits}
        divided[newer] = limits
    return {selector: facts for selector, facts in divided.items() if facts}
