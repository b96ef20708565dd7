"""Losses whose speed depends on the code that torch.compile generates."""

from losses.contrastive import InfoNCE, info_nce
from losses.focal import focal_loss
from losses.quantised import rounded, rounding_loss
from losses.robust import charbonnier_loss

__all__ = ["InfoNCE", "charbonnier_loss", "focal_loss", "info_nce", "rounded", "rounding_loss"]
