"""Records Dynamo's graph breaks with the user's line of code, and the guards of each compiled frame.

Decisions: where Dynamo breaks the graph (torch/_dynamo/output_graph.py: GraphCompileReason), and which guards it gives
a compiled frame (torch/_dynamo/guards.py: CheckFunctionManager). Torch's own counters keep only the text of a break.
Both are kept among torch's counters, which a capture clears and stores.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from conformance.capture.patching.patch import Patch

#: The group of torch's counters for graph breaks: "first line of the reason\tline of code" → how often.
GRAPH_BREAKS = "conformance_graph_break"
#: The group of torch's counters for guards: kind → how many.
GUARDS = "dynamo_guards"


def patches() -> list[Patch]:
    return [
        Patch(
            "torch._dynamo.output_graph:GraphCompileReason.__post_init__",
            _post_init,
            "records the user's stack at a graph break; torch's counters keep only the text",
        ),
        Patch(
            "torch._dynamo.guards:CheckFunctionManager.__init__",
            _init,
            "counts the guards of each compiled frame; afterwards they are closures",
        ),
    ]


def first_line(reason: str) -> str:
    """The first line of a reason for a graph break. The other lines hold stacks and paths."""
    return reason.strip().split("\n")[0]


def _post_init(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def post_init(self: Any) -> None:
        from torch._dynamo.utils import counters

        original(self)
        if self.graph_break and self.user_stack:
            code = (self.user_stack[-1].line or "").strip()
            counters[GRAPH_BREAKS][f"{first_line(str(self.reason))}\t{code}"] += 1

    return post_init


def _init(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def init(self: Any, f_code: Any, output_graph: Any = None, *args: Any, **kwargs: Any) -> None:
        from torch._dynamo.utils import counters

        if output_graph is not None:
            for guard in output_graph.guards:
                counters[GUARDS][guard.create_fn_name()] += 1
        original(self, f_code, output_graph, *args, **kwargs)

    return init


def compiled_frames() -> int:
    """The number of frames that Dynamo compiled in this process since its counters were cleared.

    Dynamo compiles a frame again if no compiled code fits the call, so a larger number after a call shows it. Its
    counters are private; the public torch.compiler can forbid a recompilation, but not count it.
    """
    import torch._dynamo.utils

    return torch._dynamo.utils.counters["frames"]["total"]
