"""Finds the uncompiled references of an operator: torch's Python references and its decompositions.

Compare them with eager by `assert_agrees_with_eager`.

Private parts of torch: torch._refs, torch._decomp and torch._inductor.decomposition. No public function returns these
references (torch.export's table is the core table under another name). If a name is missing, ReferenceMissingError
says so.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

import torch

from conformance.errors import ConformanceError

#: Name of a reduction in torch.nn.functional → its number in aten.
REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}


class ReferenceMissingError(ConformanceError, LookupError):
    """This torch has no such reference or decomposition."""


def python_reference(name: str) -> Callable[..., Any]:
    """The Python reference of torch.NAME or torch.nn.functional.NAME. NAME may have dots: `linalg.norm`.

    The reference runs in eager, on prims. Raises ReferenceMissingError.
    """
    for package in ("torch._refs", "torch._refs.nn.functional"):
        try:
            reference = functools.reduce(getattr, name.split("."), importlib.import_module(package))
        except AttributeError:
            continue
        if callable(reference):
            return _with_name(reference, f"torch._refs {name}")
    raise ReferenceMissingError(f"torch {torch.__version__} has no Python reference of {name!r} in torch._refs")


def inductor_decompositions() -> dict[Any, Callable[..., Any]]:
    """Overload → Inductor's decomposition."""
    import torch._inductor.lowering  # noqa: F401 - max_pool2d_with_indices uses it without importing it (2.13)
    from torch._inductor.decomposition import select_decomp_table

    return select_decomp_table()


@functools.cache
def functional_decompositions() -> dict[Any, Callable[..., Any]]:
    """Overload → Inductor's decomposition, for operators that return new tensors."""
    return {
        op: function
        for op, function in inductor_decompositions().items()
        if isinstance(op, torch._ops.OpOverload) and not op._schema.is_mutable
    }


def decomposition(op: torch._ops.OpOverload, table: str = "inductor") -> Callable[..., Any]:
    """The decomposition of an overload (`torch.ops.aten.smooth_l1_loss.default`), from the table "inductor" or "core".

    The function takes the arguments of the overload; `reduction` may be a name. Raises ReferenceMissingError,
    ValueError for another table, TypeError for a packet of overloads.
    """
    if not isinstance(op, torch._ops.OpOverload):
        raise TypeError(f"{op} is not one overload: write {op}.default or another overload of it")
    if table == "inductor":
        decompositions = inductor_decompositions()
    elif table == "core":
        from torch._decomp import core_aten_decompositions

        decompositions = core_aten_decompositions()
    else:
        raise ValueError(f"unknown table {table!r}: known are 'inductor' and 'core'")
    if op not in decompositions:
        raise ReferenceMissingError(
            f"torch {torch.__version__}: {op} has no decomposition in the table {table!r} "
            "(Inductor lowers it directly, or it is a composite operator that decomposes by itself)"
        )
    return _with_name(decompositions[op], f"decomposition of {op} ({table})")


def _with_name(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        if isinstance(kwargs.get("reduction"), str) and name.startswith("decomposition"):
            kwargs["reduction"] = REDUCTIONS[kwargs["reduction"]]
        return function(*args, **kwargs)

    call.__name__ = call.__qualname__ = name
    return call
