"""Records the operators that a case calls in eager, forward and backward, and finds the references of each.

Private parts of torch: TorchDispatchMode (torch.utils._python_dispatch), the only hook that sees the calls of autograd,
and the tables of decompositions.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from conformance.capture import call_modes
from conformance.cases.case import Case
from conformance.cases.seeds import seed_of
from conformance.containers import copy_to, leaves_of
from conformance.numerics.cotangents import random_cotangent
from conformance.numerics.outcome import Arguments
from conformance.numerics.torch_references import inductor_decompositions


@dataclass(frozen=True)
class OperatorCall:
    """One call of an operator, with copies of its arguments on the CPU, without gradients."""

    op: torch._ops.OpOverload
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    @property
    def signature(self) -> str:
        """The operator, the dtypes, shapes and strides of its tensors, and all other arguments."""
        return f"{self.op}({', '.join(map(_description, (*self.args, *self.kwargs.items())))})"


#: These operators return memory that nobody has written to: there are no values to compare.
UNWRITTEN = ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided")


class _OperatorRecorder(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.calls: list[OperatorCall] = []

    def __torch_dispatch__(
        self,
        func: torch._ops.OpOverload,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if torch.Tag.nondeterministic_seeded not in func.tags and func.overloadpacket.__name__ not in UNWRITTEN:
            args_copy, kwargs_copy = copy_to((tuple(args), dict(kwargs or {})), "cpu")
            self.calls.append(OperatorCall(func, _detached(args_copy), _detached(kwargs_copy)))
        return func(*args, **(kwargs or {}))


def operator_calls(case: Case, arguments: Mapping[str, Any]) -> list[OperatorCall]:
    """The operators that the case's function calls in eager on the CPU, those of its backward included.

    Raises what the function raises.
    """
    copies = Arguments(kwargs=dict(arguments)).copy_to("cpu")
    with _OperatorRecorder() as recorder, call_modes.enter_mode(case.mode, "cpu"):
        value = case.fn(**copies.kwargs)
    outputs = {f"output{path}": leaf for path, leaf in leaves_of(value) if isinstance(leaf, torch.Tensor)}
    outputs = {name: t for name, t in outputs.items() if t.requires_grad}
    seeds = [seed_of(name, tuple(t.shape), t.dtype) for name, t in outputs.items()]
    cotangents = [random_cotangent(t.shape, t.dtype, seed) for t, seed in zip(outputs.values(), seeds, strict=True)]
    with recorder:
        if outputs:
            torch.autograd.backward(list(outputs.values()), cotangents)
    return recorder.calls


def references_of(op: torch._ops.OpOverload) -> Iterator[tuple[str, Callable[..., Any]]]:
    """(name, function) of each reference of an operator, without duplicates.

    These are Inductor's decomposition, the core ATen table's, and the Python reference, where they exist.
    """
    found: list[Callable[..., Any]] = []
    for name, table in _tables().items():
        reference = table.get(op)
        if reference is None or reference in found:
            continue
        if name != _PYTHON or reference.__module__.startswith("torch._refs"):
            found.append(reference)
            yield name, reference


_PYTHON = "the Python reference"


@functools.cache
def _tables() -> dict[str, Mapping[Any, Callable[..., Any]]]:
    import torch._refs  # noqa: F401 - importing it registers its functions
    from torch._decomp import core_aten_decompositions, decomposition_table

    return {
        "Inductor's decomposition": inductor_decompositions(),
        "the core ATen decomposition": core_aten_decompositions(),
        _PYTHON: decomposition_table,  # torch._refs registers its functions there
    }


def _detached(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach()
    if isinstance(value, (list, tuple)):
        return type(value)(_detached(item) for item in value)
    if isinstance(value, dict):
        return {key: _detached(item) for key, item in value.items()}
    return value


def _description(value: Any) -> str:
    parts = []
    for path, leaf in leaves_of(value):
        text = f"{leaf.dtype}{tuple(leaf.shape)}{leaf.stride()}" if isinstance(leaf, torch.Tensor) else repr(leaf)
        parts.append(f"{path}{text}")
    return " ".join(parts)
