"""Compares the bits of tensors. A NaN equals each other NaN."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import torch


def bit_difference(one: Mapping[str, torch.Tensor], other: Mapping[str, torch.Tensor]) -> str:
    """How many elements of the first tensor that differs do, and by how much; "" if all have the same bits."""
    for name, each in one.items():
        if name not in other or other[name].shape != each.shape or other[name].dtype != each.dtype:
            return f"{name} is missing, or has another shape or dtype"
        differs = (_bytes(each) != _bytes(other[name])).any(-1).view(each.shape) & ~(
            _is_nan(each) & _is_nan(other[name])
        )
        if count := int(differs.sum()):
            return (
                f"{count:,} of {each.numel():,} elements of {name} differ{_ulps(each[differs], other[name][differs])}"
            )
    return ""


def digest(tensors: Mapping[str, torch.Tensor]) -> str:
    """16 hexadecimal digits of the bits of tensors, in the order of their names; each NaN counts as the same."""
    found = hashlib.sha256()
    for name, each in sorted(tensors.items()):
        found.update(f"{name} {each.dtype} {tuple(each.shape)}".encode())
        found.update(_bytes(each.masked_fill(_is_nan(each), 0)).numpy().tobytes())
        found.update(_is_nan(each).contiguous().numpy().tobytes())
    return found.hexdigest()[:16]


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    """A row of bytes for each element, of any dtype. A conjugate or negated view has the bits of its values."""
    flat = tensor.resolve_conj().resolve_neg().reshape(-1).clone(memory_format=torch.contiguous_format)
    return flat.view(torch.uint8).view(tensor.numel(), tensor.itemsize)


def _is_nan(tensor: torch.Tensor) -> torch.Tensor:
    """PyTorch has no isnan for floats of 8 bits."""
    return (tensor.float() if tensor.is_floating_point() and tensor.itemsize == 1 else tensor).isnan()


def _ulps(one: torch.Tensor, other: torch.Tensor) -> str:
    """`, by at most 2 ulp`, or `, in the sign of zero`: the values between, of floating dtypes of 16 bits or more."""
    if not one.is_floating_point() or one.itemsize < 2 or not bool((one.isfinite() & other.isfinite()).all()):
        return ""
    whole = {2: torch.int16, 4: torch.int32, 8: torch.int64}[one.itemsize]

    def place(tensor: torch.Tensor) -> torch.Tensor:
        bits = tensor.contiguous().view(whole).long()
        return torch.where(bits < 0, -(bits & torch.iinfo(whole).max), bits)

    most = int((place(one) - place(other)).abs().max())
    return f", by at most {most:,} ulp" if most else ", in the sign of zero"
