"""Robust regression losses."""

from __future__ import annotations

import torch


def charbonnier_loss(prediction: torch.Tensor, target: torch.Tensor, epsilon: float = 1e-3) -> torch.Tensor:
    """Returns the mean of sqrt(d² + epsilon²), where d is the difference. It is smooth at 0, unlike |d|."""
    return ((prediction - target).square() + epsilon**2).sqrt().mean()
