"""Where Dynamo broke the graph: the line of the user's function, beside the reason that torch's counters keep."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from conformance.capture.patching.patch import Patch

#: Of torch's counters, which a capture keeps and clears: "first line of the reason\tline of code" → how often.
GROUP = "conformance_graph_break"


def patches() -> list[Patch]:
    return [
        Patch(
            "torch._dynamo.output_graph:GraphCompileReason.__post_init__",
            _reason,
            "the user's stack at a graph break: the counters keep its text alone",
        )
    ]


def first_line(reason: str) -> str:
    """What a reason is known by: the rest of it holds stacks and paths."""
    return reason.strip().split("\n")[0]


def _reason(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def post_init(self: Any) -> None:
        from torch._dynamo.utils import counters

        original(self)
        if self.graph_break and self.user_stack:
            code = (self.user_stack[-1].line or "").strip()
            counters[GROUP][f"{first_line(str(self.reason))}\t{code}"] += 1

    return post_init
