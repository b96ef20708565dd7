"""What users of the engine write: plain PyTorch, which compiled code makes fast."""

import torch
from torch import nn

from engine import operators  # noqa: F401 - registers engine::all_reduce

EPS = 1e-6


def add_rms_norm(hidden, residual, weight):
    """The norm of `hidden + residual`, and that sum, written out. A pass replaces it by engine::add_rms_norm."""
    total = hidden + residual
    wide = total.float()
    norm = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + EPS)
    return norm.to(total.dtype) * weight, total


class FeedForward(nn.Module):
    """The second half of a layer. Its first product is split over the devices, so their results are added up."""

    def __init__(self, size, inner):
        super().__init__()
        self.into = nn.Linear(size, size, bias=False)
        self.weight = nn.Parameter(torch.ones(size))
        self.gate_and_up = nn.Linear(size, 2 * inner, bias=False)
        self.down = nn.Linear(inner, size, bias=False)

    def forward(self, hidden, residual):
        partial = self.into(hidden)
        hidden, residual = add_rms_norm(torch.ops.engine.all_reduce(partial), residual, self.weight)
        gate, up = self.gate_and_up(hidden).chunk(2, dim=-1)
        return self.down(nn.functional.silu(gate) * up), residual
