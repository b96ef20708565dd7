"""Pattern rewrites: what Inductor's graph passes replaced, by the pattern, and by Inductor's own counters."""

from __future__ import annotations

from conformance.capture.observers.pattern_rewrites import COUNTERS
from conformance.facts.model import Fact, Seen

#: Counters of rewrites that are no patterns, or not always; Inductor's others count bookkeeping or depend on caches.
_COUNTED = (
    "fuse_attention",
    "decompose_mm",
    "decompose_bmm",
    "decompose_addmm",
    "decompose_mm_pointwise",  # from 2.15 on
    "binary_folding",
    "binary_folding_conv",
    "efficient_conv_bn_eval",
    "pad_rewritten_as_cat",
    "inplace_padding",
    "removed_pointless_view_pair",
    "partitioned_scatter_applied",
    "partial_reduction_reuse",
    "batch_linear",
    "batch_linear_post_grad",
    "batch_linear_lhs",
    "batch_layernorm",
    "group_linear",
    "cat_linear",  # from 2.15 on
    "b2b_gemm",
    "apply_gumbel_max_trick",
    "numpy_compat_normalization",
    "var_std_reduction_dedup",  # from 2.15 on
    "scaled_mm_output_scale_fused",  # from 2.15 on
    "addcdiv_fma_fused",  # from 2.15 on
    "quant_lift_up_count",
)
#: They remove what does nothing: every graph has them, and no kernel is another for it.
_NOTHING = ("joint_graph.pointless_", "post_grad.pointless_")


def patterns(seen: Seen) -> Fact:
    """Each and how often. A pass is the sum of its patterns: `patterns.fuse_attention` of `fuse_attention.sfdp_…`."""
    counters = seen.capture.counters.get("inductor", {})
    rewrites = seen.capture.counters.get(COUNTERS, {})
    found = {name: count for name, count in sorted(rewrites.items()) if not name.startswith(_NOTHING)}
    said = {word for name in found for word in name.split(".")}
    counted = {name: counters[name] for name in _COUNTED if counters.get(name)} | {
        name: count
        for name, count in sorted(counters.items())
        if count and name.endswith(("_matcher_count", "_lower_count")) and name != "pattern_matcher_count"
    }
    passes: dict[str, int] = {}
    for name, count in found.items():
        if "." in name:
            passes[name.partition(".")[0]] = passes.get(name.partition(".")[0], 0) + count
    found |= {name: count for name, count in counted.items() if name not in said}
    text = ", ".join(name if count == 1 else f"{name} {count} times" for name, count in found.items())
    return Fact(found, (text or "none",), passes | counted | found, absent=0)
