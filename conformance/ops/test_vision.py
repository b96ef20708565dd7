"""vision: images sampled along a grid, pixels shuffled into channels, and images prepared for a network."""

import torch
from torch.nn import functional

from conformance import case, references, tensor

INDUCTOR_ONLY = {"fallbacks": [], "extern": [], "graph_breaks": 0}


@case(
    x=tensor(2, 3, 7, 9),
    grid=tensor(2, 4, 5, 2, low=-1.2, high=1.2),
    interpolation=["bilinear", "nearest"],
    padding=["zeros", "border", "reflection"],
    vary="one_at_a_time",
    require={"all": INDUCTOR_ONLY},
)
def test_grid_sample(x, grid, interpolation, padding):
    return functional.grid_sample(x, grid, mode=interpolation, padding_mode=padding, align_corners=False)


@case(
    x=tensor(2, 3, 7, 9, layout=["contiguous", "channels_last"]),
    grid=tensor(2, 4, 5, 2, low=-1.2, high=1.2),
    interpolation=["bilinear", "nearest", "bicubic"],
    padding=["zeros", "border", "reflection"],
    vary="one_at_a_time",
    grad=True,
    require={"all": {"graph_breaks": 0}},
    numerics={
        "for": {
            "nearest": {"fill": {"gradient of grid": "a small move of the grid changes no nearest pixel"}},
        }
    },
)
def test_grid_sample_backward(x, grid, interpolation, padding):
    return functional.grid_sample(x, grid, mode=interpolation, padding_mode=padding, align_corners=False)


@case(
    theta=tensor(2, 2, 3),
    align_corners=[True, False],
    grad=[False, True],
    require={"all": {"graph_breaks": 0}},
)
def test_affine_grid(theta, align_corners):
    return functional.affine_grid(theta, [2, 3, 5, 7], align_corners=align_corners)


@case(
    x=tensor(2, 8, 6, 10, layout=["contiguous", "channels_last"]),
    shuffle={
        "pixels": lambda x: functional.pixel_shuffle(x.sin(), 2),
        "unshuffle": lambda x: functional.pixel_unshuffle(x.sin(), 2),
        "channels": lambda x: functional.channel_shuffle(x.sin(), 2),
    },
    require={"all": INDUCTOR_ONLY},
)
def test_shuffle(x, shuffle):
    return shuffle(x)


@case(
    x=tensor(2, 8, 6, 10),
    shuffle={
        "pixels": lambda x: functional.pixel_shuffle(x.sin(), 2),
        "unshuffle": lambda x: functional.pixel_unshuffle(x.sin(), 2),
        "channels": lambda x: functional.channel_shuffle(x.sin(), 2),
    },
    grad=True,
    require={"all": INDUCTOR_ONLY},
)
def test_shuffle_backward(x, shuffle):
    return shuffle(x)


# Steps before the first layer: bytes become numbers around 0, channels become the first dimension.
@case(
    x=tensor(7, 9, 3, dtype="u8"),
    change={
        "normalise": lambda x: (x / 255 - 0.5) / 0.25,
        "to_channels_first": lambda x: x.permute(2, 0, 1).float() / 255,
        "grey": lambda x: (x.float() * torch.tensor([0.299, 0.587, 0.114], device=x.device)).sum(-1),
        "blend": lambda x: (x * 0.75 + x.flip(1) * 0.25).clamp(0, 255).to(torch.uint8),
    },
    require={"all": INDUCTOR_ONLY | {"kernels": 1}},
)
def test_prepare(x, change):
    return change(x)


test_references = references(
    test_grid_sample,
    test_shuffle,
    disagree={
        "aten.channel_shuffle.default": "its result is not channels-last: a known failure of test_shuffle",
        "aten.grid_sampler_2d.default": "an infinite pixel makes values outside of it NaN: a known failure",
    },
)
