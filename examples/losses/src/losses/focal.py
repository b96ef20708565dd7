"""The focal loss of binary classification (Lin et al., 2017)."""

from __future__ import annotations

import torch
import torch.nn.functional as F


def focal_loss(logits: torch.Tensor, targets: torch.Tensor, alpha: float = 0.25, gamma: float = 2.0) -> torch.Tensor:
    """Returns the mean loss. `logits`, `targets`: tensors of one shape; `targets` are between 0 and 1."""
    cross_entropy = F.binary_cross_entropy_with_logits(logits, targets, reduction="none")
    probability = torch.sigmoid(logits)
    hit = probability * targets + (1 - probability) * (1 - targets)
    weight = alpha * targets + (1 - alpha) * (1 - targets)
    return (weight * (1 - hit).pow(gamma) * cross_entropy).mean()
