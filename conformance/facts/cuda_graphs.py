"""CUDA graphs: the parts of a program that they record, and what is in none."""

from __future__ import annotations

from conformance.capture.observers.cuda_graphs import REFUSALS
from conformance.facts.model import Fact, ObservedCapture, listed


def cuda_graphs(observed: ObservedCapture) -> Fact | None:
    """The number of parts that CUDA graphs record, in all graphs; 0 where Inductor refuses them. Lines say why.

    `.parts`: the same. `.launches`: the kernels and calls in these parts, `.outside`: the others. `.writing`: the parts
    that write to an input which is no parameter: they are recorded only if it is an output of another CUDA graph.
    None without the option, and for a CPU capture.
    """
    modules = [module for module in observed.capture.modules if "cuda_graphs" in module.observed]
    before = observed.capture.counters.get(REFUSALS, {})
    if not observed.on_gpu or not (modules or before):
        return None
    parts, launches, outside, writing = 0, 0, 0, 0
    lines = [f"refused: {reason}" for reason in before]
    for module in modules:
        found, calls = module.observed["cuda_graphs"], module.observed["calls"]
        of = f"{module.kind} " if len(modules) > 1 else ""
        if found["refused"]:
            lines.append(f"{of}refused: {found['refused']}")
            outside += len(calls)
            continue
        inside = len(calls) if found["whole"] else sum(call.get("in_cuda_graph", False) for call in calls)
        parts, writing = parts + found["parts"], writing + found["writing"]
        launches, outside = launches + inside, outside + len(calls) - inside
        for reason, names in found["splits"]:
            lines.append(f"{of}split by {reason}{f': {listed(names)}' if names else ''}")
    if writing:
        lines.append(f"{writing} write to an input that is no parameter: recorded if a CUDA graph returned it")
    if not modules:
        outside = len(observed.calls)
    lines = list(dict.fromkeys(lines))
    total = f"{parts} {'part' if parts == 1 else 'parts'}, {launches} of {launches + outside} launches" if parts else ""
    counts = {"parts": parts, "launches": launches, "outside": outside, "writing": writing}
    return Fact(parts, (total or "none", *lines), counts, instead=lambda _: "; ".join(lines) or total)
