"""Records the parts of a graph that CUDA graphs record, what splits it, and why Inductor refuses CUDA graphs.

Decisions: which nodes are in no part (torch/_inductor/scheduler.py: Scheduler.should_partition), the parts
(graph_partition, _codegen_partition_wrapper), and the refusals: before the lowering (compile_fx.py) and after it
(output_code.py: CompiledFxGraph.__init__). All of them are made at compile time, without the device.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Sequence
from typing import Any

from conformance.capture.patching.patch import Patch

#: The group of torch's counters for refusals before there is a graph: reason → how often.
REFUSALS = "conformance_cuda_graphs_refused"
_SPLITS = "_conformance_cuda_graph_splits"
_FOUND = "_conformance_cuda_graphs"
#: Around Inductor's reason: what it begins with, the user's stack, and the names of nodes, which have numbers.
_AROUND = re.compile(r"(skipping|disabling) cudagraphs due to | *\.? *Found from.*| \((arg|primals|tangents)\w*\)")
_SYMBOL = re.compile(r": [us]\d+$")
_TOO_SMALL = "fewer kernels than triton.cudagraph_min_partition_size"
_FORWARD = "the forward has none"

#: A graph → the records of its calls until now.
Records = Callable[[Any], list[dict[str, Any]]]


def patches(records: Records) -> list[Patch]:
    """`records`: those that get the number of the part which has the call."""
    scheduler = "torch._inductor.scheduler:Scheduler"
    return [
        Patch(f"{scheduler}.graph_partition", _graph_partition, "records what splits a graph"),
        Patch(
            f"{scheduler}._codegen_partition_wrapper",
            functools.partial(_codegen_partition, records),
            "records which calls are in a part",
        ),
        Patch(
            "torch._inductor.output_code:CompiledFxGraph.__init__",
            _init,
            "records why a graph gets no CUDA graphs; torch keeps some reasons, and logs the others",
        ),
        Patch(
            "torch._inductor.compile_fx:log_cudagraph_skip_and_bump_counter",
            _skip,
            "records why no graph gets CUDA graphs, where the option is off before the lowering",
        ),
    ]


def parts(graph: Any, operators_of: Callable[[Sequence[Any]], list[str]]) -> dict[str, Any]:
    """Of a GraphLowering after its codegen, as `cuda_graphs`; nothing where the option is off.

    `parts`: their number; `whole`: whether Inductor may not split the graph; `splits`: [reason, operators] of what is
    between them; `writing`: how many parts write to an input that is no parameter; `refused`: why there are no CUDA
    graphs, or "". The last two become known later: then the same dict gets them. `operators_of`: the operators of
    scheduler nodes.
    """
    from torch._inductor import config

    if not config.triton.cudagraphs or graph.aot_mode:
        return {}
    splits: dict[str, list[Any]] = {}
    for reason, node in graph.__dict__.get(_SPLITS, ()):
        splits.setdefault(reason, []).extend(node.get_nodes())
    found = {
        "parts": len(graph.partition_maps or ()) if config.graph_partition else 1,
        "whole": not config.graph_partition,
        "splits": [[reason, operators_of(nodes)] for reason, nodes in splits.items()],
        "writing": 0,
        "refused": "",
    }
    graph.__dict__[_FOUND] = found
    return {"cuda_graphs": found}


def reason_text(reason: str) -> str:
    """Inductor's reason in one line, without the stack."""
    return _AROUND.sub("", reason.strip().partition("\n")[0]).strip()


def _graph_partition(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def graph_partition(self: Any) -> Any:
        from torch._inductor import config
        from torch._inductor.virtualized import V

        found, signatures = original(self)
        if config.triton.cudagraphs:
            V.graph.__dict__[_SPLITS] = [
                (_SYMBOL.sub("", self.should_partition(node) or _TOO_SMALL), node)
                for partition, signature in zip(found, signatures, strict=True)
                if signature.skip_cudagraph
                for node in partition
            ]
        return found, signatures

    return graph_partition


def _codegen_partition(records: Records, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def codegen_partition(self: Any, *args: Any, **kwargs: Any) -> Any:
        from torch._inductor.virtualized import V

        before = len(records(V.graph))
        result = original(self, *args, **kwargs)
        for record in records(V.graph)[before:]:
            record["in_cuda_graph"] = True
        return result

    return codegen_partition


def _init(original: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(original)  # the arguments have other places in each version

    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        given = signature.bind(self, *args, **kwargs).arguments
        graph, is_on = given["graph"], bool(given["cudagraphs"])
        original(self, *args, **kwargs)
        found = graph.__dict__.get(_FOUND)
        if found is None:
            return
        failed = self.cudagraph_info.cudagraph_fail_reasons if self.cudagraph_info else []
        reason = self.disabled_cudagraphs_reason or ", ".join(failed) or ("" if is_on else _FORWARD)
        found["refused"] = reason_text(reason)
        found["writing"] = _writing(graph, set(self.mutated_input_idxs) - set(given["static_input_idxs"]))

    return init


def _writing(graph: Any, written: set[int]) -> int:
    """The number of parts that have one of the written inputs: for Inductor, these write it."""
    from torch._inductor import config

    if not config.graph_partition:
        return int(bool(written))
    return sum(bool(written & set(each.input_index_mapping)) for each in graph.partition_maps or ())


def _skip(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def skip(msg: str) -> None:
        from torch._dynamo.utils import counters

        counters[REFUSALS][reason_text(msg)] += 1
        original(msg)

    return skip
