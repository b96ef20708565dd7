"""Records the numbers by which Inductor decided to split a reduction, or to make it persistent.

Decisions: the number of splits (torch/_inductor/ir.py: Reduction.num_splits), and whether a Triton reduction is
persistent (torch/_inductor/choices.py: InductorChoices.should_use_persistent_reduction).
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

from conformance.capture.patching.patch import Patch

_DECISIONS = "_conformance_reductions"

#: The upper limits that each running should_use_persistent_reduction compared with. A stack: a capture inside a capture
#: wraps the function twice.
_limits: list[list[Any]] = []


def patches() -> list[Patch]:
    return [
        Patch("torch._inductor.ir:Reduction.num_splits", _num_splits, "records the number of splits and its reason"),
        Patch(
            "torch._inductor.choices:InductorChoices.should_use_persistent_reduction",
            _persistent,
            "records whether a reduction is persistent",
        ),
        Patch(
            "torch._inductor.sizevars:SizeVarAllocator.statically_known_leq",
            _statically_known_leq,
            "records the length limit of persistent reductions",
        ),
    ]


def decisions(graph: Any) -> list[dict[str, Any]]:
    """The decisions in order. `outer`, `reduced`: the number of results, and of the elements of each.

    `hint`: Inductor's ReductionHint. Of a decision on splits also `splits`, the number of parts that share one result,
    and `multiprocessors`. Of a decision on persistence also `persistent`, and `limit` in elements, None if another rule
    decided.
    """
    unique = {str(record): record for record in graph.__dict__.get(_DECISIONS, [])}  # Inductor may decide twice
    return list(unique.values())


def _record(record: dict[str, Any]) -> None:
    from torch._inductor.virtualized import V

    V.graph.__dict__.setdefault(_DECISIONS, []).append(record)


def _num_splits(original: Callable[..., Any]) -> Any:
    @functools.wraps(original)
    def num_splits(device: Any, *args: Any, **kwargs: Any) -> Any:
        import sympy
        from torch._inductor.runtime.hints import DeviceProperties
        from torch._inductor.utils import sympy_product

        hint, splits = original(device, *args, **kwargs)
        if not isinstance(splits, (int, sympy.Expr)):
            splits = operator.index(splits)  # an AskedNumber: Inductor asserts that a size is an integer
        numbers = dict(zip(("ranges", "reduction_numel"), (args[3:4] + args[6:7]), strict=False)) | kwargs
        if device.type != "cpu" and "ranges" in numbers and "reduction_numel" in numbers:
            record = {"outer": str(sympy_product(numbers["ranges"])), "reduced": str(numbers["reduction_numel"])}
            count = DeviceProperties.create(device).multi_processor_count
            count = getattr(count, "value", count)  # an AskedNumber: a record asks nothing
            _record(record | {"hint": hint.name, "splits": str(splits), "multiprocessors": count})
        return hint, splits

    return staticmethod(num_splits)


def _persistent(original: Callable[..., Any]) -> Any:
    @functools.wraps(original)
    def should_use_persistent_reduction(features: Any, *args: Any, **kwargs: Any) -> bool:
        limits: list[Any] = [None]
        _limits.append(limits)
        try:
            answer = original(features, *args, **kwargs)
        finally:
            _limits.pop()
        record = {"outer": str(features.numel), "reduced": str(features.reduction_numel)}
        hint = features.get_reduction_hint().name
        limit = None if limits[-1] is None else str(limits[-1])
        _record(record | {"hint": hint, "persistent": bool(answer), "limit": limit})
        return answer

    return staticmethod(should_use_persistent_reduction)


def _statically_known_leq(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def statically_known_leq(self: Any, left: Any, right: Any) -> bool:
        if _limits:
            _limits[-1].append(right)
        return original(self, left, right)

    return statically_known_leq
