"""Contrastive losses."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn


def info_nce(queries: torch.Tensor, keys: torch.Tensor, temperature: float | torch.Tensor = 0.07) -> torch.Tensor:
    """Returns InfoNCE. `queries`, `keys`: (n, features). A query and its key have one row; other keys are negative."""
    similarity = F.normalize(queries, dim=-1) @ F.normalize(keys, dim=-1).mT / temperature
    return -similarity.log_softmax(-1).diagonal().mean()


class InfoNCE(nn.Module):
    """InfoNCE with a temperature that is learned, as its logarithm. `temperature`: the one to begin with."""

    def __init__(self, temperature: float = 0.07) -> None:
        super().__init__()
        self.log_temperature = nn.Parameter(torch.tensor(math.log(temperature)))

    def forward(self, queries: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
        return info_nce(queries, keys, self.log_temperature.exp())
