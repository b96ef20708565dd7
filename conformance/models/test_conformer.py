"""conformer: the block of "Conformer: Convolution-augmented Transformer for Speech Recognition", arXiv 2005.08100.

As in torchaudio, attention has no relative positions.
"""

import torch
from torch import nn

from conformance import case, module, tensor
from conformance.models.declarations import HUGE_OVERFLOWS

ONE_GRAPH = {"graph_breaks": 0}
_ATTENTION = "fallbacks.aten._scaled_dot_product_"
ON_CPU, ON_CUDA = _ATTENTION + "flash_attention_for_cpu", _ATTENTION + "efficient_attention"


def feed_forward(dim, hidden):
    return nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, hidden), nn.SiLU(), nn.Linear(hidden, dim))


class Convolution(nn.Module):
    """The convolution module: a gate, a depthwise convolution over time, and batch normalisation."""

    def __init__(self, dim, kernel):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.layers = nn.Sequential(
            nn.Conv1d(dim, 2 * dim, 1),
            nn.GLU(dim=1),
            nn.Conv1d(dim, dim, kernel, padding=kernel // 2, groups=dim, bias=False),
            nn.BatchNorm1d(dim),
            nn.SiLU(),
            nn.Conv1d(dim, dim, 1),
        )

    def forward(self, x):
        return self.layers(self.norm(x).mT).mT


class Conformer(nn.Module):
    """Half a feed-forward step, attention, convolution, and the other half step."""

    def __init__(self, dim=48, heads=3, hidden=53, kernel=7):
        super().__init__()
        self.before, self.after = feed_forward(dim, hidden), feed_forward(dim, hidden)
        self.attention_norm, self.norm = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attention = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.convolution = Convolution(dim, kernel)

    def forward(self, x, lengths):
        padding = torch.arange(x.size(1), device=x.device) >= lengths[:, None]
        x = x + 0.5 * self.before(x)
        y = self.attention_norm(x)
        x = x + self.attention(y, y, y, key_padding_mask=padding, need_weights=False)[0]
        x = x + self.convolution(x)
        return self.norm(x + 0.5 * self.after(x))


# x: (batch, frames, features). lengths: the frames of each sequence that are no padding.
@case(
    net=module(Conformer),
    x=tensor(2, 13, 48),
    lengths=tensor(2, dtype="i64", low=9, high=14),
    training=False,
    dtype=["f32", "bf16"],
    mode=["plain", "autocast"],
    dynamic=[False, True],
    vary="one_at_a_time",
    require={
        "all": ONE_GRAPH | {"extern.convolution": 3, "extern.bmm": "<=1", "bytes": "<=4"},  # attention by hand: 3 bmm
        "cpu": {ON_CPU: 1, "vectorised": "yes"},
        "cpu plain": {"kernels": "<=10", "buffers": "<=14"},
        "cuda f32 plain": {ON_CUDA: 1},
        "gpu plain": {"kernels": "<=15", "buffers": "<=8"},
    },
    numerics={"without": HUGE_OVERFLOWS},
)
def test_inference(net, x, lengths):
    return net(x, lengths)


@case(
    net=module(Conformer),
    x=tensor(2, 13, 48),
    lengths=tensor(2, dtype="i64", low=9, high=14),
    training=True,
    grad=True,
    require={
        "all": ONE_GRAPH | {"extern.convolution": 3, "fallbacks.aten.convolution_backward": 3, "bytes": "<=2.65"},
        "cpu": {ON_CPU: 1, ON_CPU + "_backward": 1, "kernels": "<=23", "buffers": "<=80"},
        "cuda": {ON_CUDA: 1, ON_CUDA + "_backward": 1, "extern.bmm": 0},
        "gpu": {"kernels": "<=46", "buffers": "<=70"},
    },
    numerics={
        "without": HUGE_OVERFLOWS,
        "factor": 6,
        "reason": "an expanded cotangent is one number, so the sums in LayerNorm's backward cancel: eager's gradients "
        "are off by 116 ulp, compiled's in one of 2,544 elements by 503 ulp, 4.3 times as much",
    },
)
def test_training(net, x, lengths):
    return net(x, lengths)
