"""Losses that keep weights near values of less precision."""

from __future__ import annotations

import torch


def rounded(weight: torch.Tensor) -> torch.Tensor:
    """Returns float32 weights rounded to the nearest bfloat16 values, as float32."""
    return weight.bfloat16().float()


def rounding_loss(weight: torch.Tensor) -> torch.Tensor:
    """Returns the mean distance of float32 weights from the nearest bfloat16 values."""
    return (weight - rounded(weight)).abs().mean()
