"""Pattern rewrites of Inductor's graph passes: by the pattern, and by Inductor's own counters."""

from __future__ import annotations

from conformance.capture.observers.pattern_rewrites import COUNTERS
from conformance.capture.program import OF_INDUCTOR
from conformance.facts.model import Fact, ObservedCapture

#: Inductor's counters of rewrites that no pattern stands for, or not always. Its other counters count bookkeeping, or
#: depend on caches.
_COUNTERS = (
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
    "group_linear",
    "cat_linear",  # from 2.15 on
    "b2b_gemm",
    "apply_gumbel_max_trick",
    "cpp_micro_gemm_amx_counter",  # products from a template by the tiles of AMX
    "numpy_compat_normalization",
    "var_std_reduction_dedup",  # from 2.15 on
    "scaled_mm_output_scale_fused",  # from 2.15 on
    "addcdiv_fma_fused",  # from 2.15 on
    "quant_lift_up_count",
    "merge_splits_pass",
    "split_cat_pass",
    "unbind_stack_pass",
    "remove_split_with_size_one_pass",
    "merge_getitem_cat_pass",
    "mutate_cat_pass",
    "split_cat_to_slices_pass",
    "unbind_cat_to_view_pass",
    "split_stack_to_cats_pass",
    "unbind_stack_to_slices_pass",
    "move_reshape_out_of_split_stack_pass",
    "einsum_to_pointwise_pass",
    "split_cat_aten_pass",
    "select_cat_aten_pass",
    "move_view_after_cat_aten_pass",
)
#: Patterns that remove operators without an effect. Every graph has them, and they change no kernel.
_WITHOUT_EFFECT = ("joint_graph.pointless_", "post_grad.pointless_")


def patterns(observed: ObservedCapture) -> Fact:
    """Each rewrite and how often it happened. A part that names a pass, `patterns.fuse_attention`, is a sum."""
    counters = observed.capture.counters.get("inductor", {})
    rewrites = observed.capture.counters.get(COUNTERS, {})
    counts = {name: count for name, count in sorted(rewrites.items()) if not name.startswith(_WITHOUT_EFFECT)}
    words = {word for name in counts for word in name.split(".")}
    counted = {name: counters[name] for name in _COUNTERS if counters.get(name)} | {
        name: count
        for name, count in sorted(counters.items())
        if count
        and (name.startswith("batch_") or name.endswith(("_matcher_count", "_lower_count")))
        and name != "pattern_matcher_count"
    }
    passes: dict[str, int] = {}
    for name, count in counts.items():
        if "." in name:
            passes[name.partition(".")[0]] = passes.get(name.partition(".")[0], 0) + count
    counts |= {name: count for name, count in counted.items() if name not in words}
    text = ", ".join(name if count == 1 else f"{name} {count} times" for name, count in counts.items())

    def instead(part: str) -> str:
        found = observed.capture.matches.get(f"{OF_INDUCTOR}{part}", {})
        return found["nearest"] if found.get("found") else ""

    return Fact(counts, (text or "none",), passes | counted | counts, absent=0, instead=instead)
