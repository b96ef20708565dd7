"""Conversions between dtypes: roundings that compiled leaves out, and what has no defined result.

Private parts of torch: TorchDispatchMode (torch.utils._python_dispatch), the only hook that sees what is converted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from conformance.capture import call_modes
from conformance.numerics.measurement import ulp_of
from conformance.numerics.outcome import Arguments

_CONVERSIONS = (torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default)  # noqa: SLF001 - an operator's name
#: The option of Inductor that makes compiled round where eager does.
CASTS = "emulate_precision_casts"
#: Elements that differ by more than so many ulp, as a share of a tensor above which a rounding is said to be lost.
_ULP, _SHARE = 8, 0.01


def names_a_rounding(note: str) -> bool:
    """Whether a note of a comparison is about a rounding that compiled leaves out."""
    return "eager rounds " in note or CASTS in note


def are_integers(tensor: torch.Tensor) -> bool:
    return not (tensor.dtype.is_floating_point or tensor.dtype.is_complex or tensor.dtype == torch.bool)


def rounded_by_one(got: torch.Tensor, eager: torch.Tensor, wide: torch.Tensor, moved: torch.Tensor) -> torch.Tensor:
    """Where integers differ by one because a number before them was rounded: bool, in the shape of the tensors.

    There float64 gives compiled's integer, or its integer changes when the inputs move by 1 ulp. `got`, `eager`,
    `wide`: integers on the CPU, of one shape; `wide`: of the float64 run. `moved`: how far its integers then move.
    """
    by_one = (got == eager + 1) & (eager != torch.iinfo(eager.dtype).max)
    by_one |= (got == eager - 1) & (eager != torch.iinfo(eager.dtype).min)
    return by_one & ((got == wide) | (moved > 0))


def share_without_rounding(got: torch.Tensor, eager: torch.Tensor, wide: torch.Tensor) -> float:
    """The share of elements far from eager, where float64 is nearer to compiled; 0 where they are few, or it is not.

    `got`, `eager`: floating, of one dtype; `wide`: float64. All on the CPU, of one shape.
    """
    one, other, truth = (tensor.double() for tensor in (got, eager, wide))
    is_finite = one.isfinite() & other.isfinite() & truth.isfinite()
    one, other, truth = one[is_finite], other[is_finite], truth[is_finite]
    if not one.numel() or float((one - truth).abs().mean()) * 2 > float((other - truth).abs().mean()):
        return 0.0
    share = float(((one - other).abs() > _ULP * ulp_of(truth.abs(), eager.dtype)).double().mean())
    return share if share > _SHARE else 0.0


def narrow_dtypes(fn: Callable[..., Any], arguments: Arguments, mode: str) -> list[str]:
    """Dtypes of at most 16 bits that a call of eager on the CPU rounds values to. `mode`: the case's call mode."""
    copies = arguments.copy_to("cpu")
    eager = torch.compiler.set_stance("force_eager")  # flex_attention compiles itself, and Dynamo refuses the mode
    with eager, _Narrowing() as seen, call_modes.enter_mode(mode, "cpu"):
        fn(*copies.args, **copies.kwargs)
    return list(seen.dtypes)


class _Narrowing(TorchDispatchMode):
    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()
        self.dtypes: dict[str, None] = {}

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        source = source_of(func, args)
        if source is not None and result.dtype.is_floating_point and result.dtype.itemsize <= 2 < source.dtype.itemsize:
            self.dtypes[str(result.dtype).removeprefix("torch.")] = None
        return result


def source_of(func: Any, args: Sequence[Any]) -> torch.Tensor | None:
    """What an operator converts to the dtype of its result; None if it is no conversion."""
    return args[func is torch.ops.aten.copy_.default] if func in _CONVERSIONS else None


def beyond(source: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Where numbers are NaN, infinite or beyond the range of an integer dtype: a conversion has no defined result."""
    info, values = torch.iinfo(dtype), source.detach().double().trunc()
    return ~values.isfinite() | (values < info.min) | (values >= float(info.max) + 1)
