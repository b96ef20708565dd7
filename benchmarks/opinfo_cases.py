"""PyTorch's own operator samples (OpInfo) as cases: many operators for deviceless capture, not part of the suite.

torch.testing._internal is private. It is the only place where PyTorch has sample inputs for all of its operators (2.11
to 2.15).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from conformance.cases.case import Case


def opinfo_cases() -> Iterator[Case]:
    """The first float32 sample of every entry that has one, with gradients if the entry supports them."""
    import torch
    from torch.testing._internal.common_methods_invocations import op_db

    for op in op_db:
        if torch.float32 not in op.dtypes:
            continue
        torch.manual_seed(0)  # samples are drawn from the global generator
        gradients = op.supports_autograd and torch.float32 in op.backward_dtypes
        sample = next(iter(op.sample_inputs("cpu", torch.float32, requires_grad=gradients)), None)
        if sample is None:
            continue
        name = op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")
        # the indices of tensor_split stay on the CPU, for every device
        moved, kept = (sample.args, ()) if name != "tensor_split" else ((), sample.args)
        yield Case(
            operator="opinfo",
            name=name,
            labels=(),
            fn=_called(op.get_op(), kept),
            file=Path(__file__),
            arguments={"args": (sample.input, *moved), "kwargs": dict(sample.kwargs)},
        )


def _called(op: Callable[..., Any], kept: tuple[Any, ...]) -> Callable[..., Any]:
    def fn(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return op(*args, *kept, **kwargs)

    return fn
