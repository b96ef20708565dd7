"""Pattern rewrites: what Inductor's graph passes replaced, by Inductor's own counters."""

from __future__ import annotations

from conformance.facts.model import Fact, Seen

#: Rewrites that change what is computed how; Inductor's other counters count bookkeeping or depend on caches.
_PATTERNS = (
    "fuse_attention",
    "pad_mm",
    "decompose_mm",
    "decompose_bmm",
    "decompose_addmm",
    "binary_folding",
    "efficient_conv_bn_eval",
    "pad_rewritten_as_cat",
    "removed_pointless_view_pair",
    "partitioned_scatter_applied",
    "batch_linear",
    "group_linear",
)


def patterns(seen: Seen) -> Fact:
    counters = seen.capture.counters.get("inductor", {})
    found = {name: counters[name] for name in _PATTERNS if counters.get(name)}
    found |= {
        name: count
        for name, count in sorted(counters.items())
        if count and name.endswith("_matcher_count") and name != "pattern_matcher_count"
    }
    text = ", ".join(name if count == 1 else f"{name} {count} times" for name, count in found.items())
    return Fact(found, (text or "none",), found, absent=0)
