"""The numbers that Inductor's heuristics for reductions decided by: whether one is split, whether it is persistent."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from conformance.capture.patching.patch import Patch

_SEEN = "_conformance_reductions"

#: What numbers were held against, for each should_use_persistent_reduction that is asking: a capture inside a capture
#: has wrapped it twice.
_limits: list[list[Any]] = []


def patches() -> list[Patch]:
    return [
        Patch("torch._inductor.ir:Reduction.num_splits", _num_splits, "by what a reduction is split"),
        Patch(
            "torch._inductor.choices:InductorChoices.should_use_persistent_reduction",
            _persistent,
            "by what a reduction is persistent",
        ),
        Patch(
            "torch._inductor.sizevars:SizeVarAllocator.statically_known_leq", _leq, "the longest persistent reduction"
        ),
    ]


def seen(graph: Any) -> list[dict[str, Any]]:
    """In the order of the decisions; `outer`, `reduced`: how many results, of how many elements each.

    Of a split also `splits`, how many kernels' blocks share one result, and `multiprocessors`; of a persistent
    reduction `persistent`, and `limit` elements, None where another rule decided; `hint`: Inductor's ReductionHint.
    """
    found = {str(record): record for record in graph.__dict__.get(_SEEN, [])}  # tried out and generated: once
    return list(found.values())


def _note(record: dict[str, Any]) -> None:
    from torch._inductor.virtualized import V

    V.graph.__dict__.setdefault(_SEEN, []).append(record)


def _num_splits(original: Callable[..., Any]) -> Any:
    @functools.wraps(original)
    def num_splits(device: Any, *args: Any, **kwargs: Any) -> Any:
        from torch._inductor.runtime.hints import DeviceProperties
        from torch._inductor.utils import sympy_product

        hint, splits = original(device, *args, **kwargs)
        numbers = dict(zip(("ranges", "reduction_numel"), (args[3:4] + args[6:7]), strict=False)) | kwargs
        if device.type != "cpu" and "ranges" in numbers and "reduction_numel" in numbers:
            record = {"outer": str(sympy_product(numbers["ranges"])), "reduced": str(numbers["reduction_numel"])}
            count = DeviceProperties.create(device).multi_processor_count
            _note(record | {"hint": hint.name, "splits": str(splits), "multiprocessors": count})
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
        _note(record | {"hint": hint, "persistent": bool(answer), "limit": limit})
        return answer

    return staticmethod(should_use_persistent_reduction)


def _leq(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def statically_known_leq(self: Any, left: Any, right: Any) -> bool:
        if _limits:
            _limits[-1].append(right)
        return original(self, left, right)

    return statically_known_leq
