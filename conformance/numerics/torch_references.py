"""Uncompiled references of an operator: torch's Python references and its decompositions.

Both are private: torch._refs, torch._decomp and torch._inductor.decomposition have no public counterpart that gives the
function as it is (torch.export's table is the core one, under another name). Names as in torch 2.11 to 2.15; a missing
one raises ReferenceMissingError, so that a rename shows as such. To be held to eager by `conformance.numerics.hold`.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

import torch

from conformance.errors import ConformanceError

#: How aten numbers the reductions that torch.nn.functional names.
REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}


class ReferenceMissingError(ConformanceError, LookupError):
    """This torch has no such reference or decomposition."""


def python_reference(name: str) -> Callable[..., Any]:
    """The reference of torch.NAME, of torch.nn.functional.NAME, or of a dotted name below torch (`linalg.norm`).

    Runs in eager, on prims. Raises ReferenceMissingError.
    """
    for package in ("torch._refs", "torch._refs.nn.functional"):
        try:
            found = functools.reduce(getattr, name.split("."), importlib.import_module(package))
        except AttributeError:
            continue
        if callable(found):
            return _named(found, f"torch._refs {name}")
    raise ReferenceMissingError(f"torch {torch.__version__} has no Python reference of {name!r} in torch._refs")


def inductor_table() -> dict[Any, Callable[..., Any]]:
    """Inductor's decompositions by overload."""
    import torch._inductor.lowering  # noqa: F401 - max_pool2d_with_indices names it, and does not import it (2.13)
    from torch._inductor.decomposition import select_decomp_table

    return select_decomp_table()


def decomposition(op: torch._ops.OpOverload, table: str = "inductor") -> Callable[..., Any]:
    """The decomposition of an overload (`torch.ops.aten.smooth_l1_loss.default`), from the table "inductor" or "core".

    The function takes what the overload takes; a `reduction` may be given by name. Raises ReferenceMissingError,
    ValueError for another table, TypeError for a packet of overloads instead of one.
    """
    if not isinstance(op, torch._ops.OpOverload):
        raise TypeError(f"{op} is not one overload: write {op}.default, or name the overload")
    if table == "inductor":
        decompositions = inductor_table()
    elif table == "core":
        from torch._decomp import core_aten_decompositions

        decompositions = core_aten_decompositions()
    else:
        raise ValueError(f"unknown table {table!r}: known are 'inductor' and 'core'")
    if op not in decompositions:
        raise ReferenceMissingError(
            f"torch {torch.__version__}: {op} has no decomposition in the table {table!r} "
            "(it is lowered as it is, or decomposes by itself as a composite operator)"
        )
    return _named(decompositions[op], f"decomposition of {op} ({table})")


def _named(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        if isinstance(kwargs.get("reduction"), str) and name.startswith("decomposition"):
            kwargs["reduction"] = REDUCTIONS[kwargs["reduction"]]
        return function(*args, **kwargs)

    call.__name__ = call.__qualname__ = name
    return call
