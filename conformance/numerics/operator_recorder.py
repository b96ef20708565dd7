"""The operators that a case calls in eager, forward and backward, with their arguments, and the references of each.

Private: TorchDispatchMode (torch.utils._python_dispatch), which alone sees what autograd calls; the tables of
decompositions. Names as in torch 2.11 to 2.15.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from conformance.cases import call_modes
from conformance.cases.case import Case
from conformance.cases.inputs import copy_to, seed_of
from conformance.numerics.outcome import Arguments, cotangent, flatten
from conformance.numerics.torch_references import inductor_table


@dataclass(frozen=True)
class Called:
    """One call of an operator: copies of its arguments, without gradients."""

    op: torch._ops.OpOverload
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    @property
    def signature(self) -> str:
        """The operator with dtypes, shapes and strides of tensors, and all other arguments."""
        return f"{self.op}({', '.join(map(_described, (*self.args, *self.kwargs.items())))})"


#: What these answer is memory that nobody has written to: there is nothing to hold.
_UNWRITTEN = ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided")


class _Recording(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Called] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if torch.Tag.nondeterministic_seeded not in func.tags and func.overloadpacket.__name__ not in _UNWRITTEN:
            args_, kwargs_ = copy_to((tuple(args), dict(kwargs or {})), "cpu")
            self.calls.append(Called(func, _detached(args_), _detached(kwargs_)))
        return func(*args, **(kwargs or {}))


def called(case: Case, arguments: Mapping[str, Any]) -> list[Called]:
    """What calling the case's function in eager on the cpu calls, its backward included. Raises what it raises."""
    placed_ = Arguments(kwargs=dict(arguments)).copy_to("cpu")
    with _Recording() as recording, call_modes.enter_mode(case.mode, "cpu"):
        value = case.fn(**placed_.kwargs)
    wanted = {f"output{path}": leaf for path, leaf in flatten(value) if isinstance(leaf, torch.Tensor)}
    wanted = {name: t for name, t in wanted.items() if t.requires_grad}
    cotangents = [cotangent(t.shape, t.dtype, seed_of(name)) for name, t in wanted.items()]
    with recording:
        if wanted:
            torch.autograd.backward(list(wanted.values()), cotangents)
    return recording.calls


def references_of(op: torch._ops.OpOverload) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Where it has one: Inductor's decomposition, the core ATen table's, and the Python reference; none twice."""
    seen = []
    for name, table in _tables().items():
        found = table.get(op)
        if found is None or found in seen:
            continue
        if name != _PYTHON or found.__module__.startswith("torch._refs"):
            seen.append(found)
            yield name, found


_PYTHON = "the Python reference"


@functools.cache
def _tables() -> dict[str, Mapping[Any, Callable[..., Any]]]:
    import torch._refs  # noqa: F401 - it registers what it has
    from torch._decomp import core_aten_decompositions, decomposition_table

    return {
        "Inductor's decomposition": inductor_table(),
        "the core ATen decomposition": core_aten_decompositions(),
        _PYTHON: decomposition_table,  # torch._refs puts its functions there
    }


def _detached(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach()
    if isinstance(value, (list, tuple)):
        return type(value)(_detached(item) for item in value)
    if isinstance(value, dict):
        return {key: _detached(item) for key, item in value.items()}
    return value


def _described(value: Any) -> str:
    found = []
    for path, leaf in flatten(value):
        said = f"{leaf.dtype}{tuple(leaf.shape)}{leaf.stride()}" if isinstance(leaf, torch.Tensor) else repr(leaf)
        found.append(f"{path}{said}")
    return " ".join(found)
