"""Describes the wrong elements of a tensor: what they are in eager and in compiled, and by how much they differ."""

from __future__ import annotations

import torch

from conformance.numerics.problem import KINDS, WrongValues


def wrong_values(wrong: torch.Tensor, got: torch.Tensor, eager: torch.Tensor) -> WrongValues:
    """`wrong`: bool. `got`, `eager`: CPU tensors of its shape and of one dtype, of any kind."""
    one, other = got[wrong], eager[wrong]
    pairs, counts = torch.stack([_kinds(other), _kinds(one)]).unique(dim=1, return_counts=True)
    changes = {
        f"{KINDS[before]} → {KINDS[after]}": count
        for (before, after), count in zip(pairs.T.tolist(), counts.tolist(), strict=True)
    }
    one, other = _wide(one), _wide(other)
    finite = one.isfinite() & other.isfinite()  # their difference may still overflow, and is infinite then
    off_by = float((one[finite] - other[finite]).abs().max()) if finite.any() else 0.0
    if not (got.is_floating_point() or got.is_complex()):
        off_by = max(off_by, 1.0)  # float64 may not tell two large integers apart
    return WrongValues(changes, len(one) / wrong.numel(), off_by)


def _kinds(values: torch.Tensor) -> torch.Tensor:
    """The index in KINDS of each element: int64. A complex number is what its parts are, NaN before infinity."""
    if values.dtype.is_complex:
        parts = torch.view_as_real(values.resolve_conj())
        kinds = _kinds(parts)
        number = KINDS.index("number")
        # 0 + 0j is 0. Else the first kind of a part that is not 0, in the order of KINDS, so that NaN comes first.
        zero = (kinds == KINDS.index("0")) | (kinds == KINDS.index("-0"))
        return torch.where(zero.all(-1), KINDS.index("0"), torch.where(zero, number, kinds).amin(-1))
    kinds = torch.full(values.shape, KINDS.index("number"))
    wide = _wide(values)
    kinds[wide == 0] = KINDS.index("0")
    kinds[(wide == 0) & wide.signbit()] = KINDS.index("-0")
    kinds[wide == torch.inf] = KINDS.index("inf")
    kinds[wide == -torch.inf] = KINDS.index("-inf")
    kinds[wide.isnan()] = KINDS.index("NaN")
    return kinds


def _wide(values: torch.Tensor) -> torch.Tensor:
    return values.to(torch.complex128 if values.dtype.is_complex else torch.float64)
