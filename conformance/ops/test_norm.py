"""norm: layer, rms, group and batch normalisation, alone and with the activation that follows."""

import torch

from conformance import case, tensor

functional = torch.nn.functional

#: Means and variances of the largest numbers overflow earlier or later, by the order of their sums.
OVERFLOW = {"without": {"huge": "sums of the largest numbers overflow earlier or later, by their order"}}

ALONE = {"fallbacks": [], "extern": [], "graph_breaks": 0}

ACTIVATIONS = {"plain": lambda x: x, "relu": torch.relu, "gelu": functional.gelu, "silu": functional.silu}


@case(
    x=tensor(8, 65),
    weight=tensor(65),
    bias=tensor(65),
    activation=ACTIVATIONS,
    dtype=["f32", "f16", "bf16"],
    grad=[False, True],
    dynamic=[False, True],
    vary="one_at_a_time",
    require={
        "forward": ALONE | {"kernels": 1},
        "gpu forward": {"kinds": ["persistent reduction"]},
        "cpu f32 forward": {"vectorised": "yes"},
        "backward": {"fallbacks": [], "extern": []},
    },
    numerics=OVERFLOW,
)
def test_layer_norm(x, weight, bias, activation):
    return activation(functional.layer_norm(x, (65,), weight, bias))


@case(
    x=tensor(8, 65),
    weight=tensor(65),
    dtype=["f32", "bf16"],
    grad=[False, True],
    require={"forward": ALONE | {"kernels": 1}, "backward": {"graph_breaks": 0, "extern": []}},
    numerics=OVERFLOW,
)
def test_rms_norm(x, weight):
    return functional.rms_norm(x, (65,), weight)


@case(
    x=tensor(2, 8, 7, 9, layout=["contiguous", "channels_last"]),
    weight=tensor(8),
    bias=tensor(8),
    activation={"plain": ACTIVATIONS["plain"], "silu": ACTIVATIONS["silu"]},
    dtype=["f32", "bf16"],
    grad=[False, True],
    vary="one_at_a_time",
    require={"all": {"graph_breaks": 0, "extern": []}, "forward": {"fallbacks": []}},
    # Eager makes scale and shift of mean, weight and bias before x comes in, and so does what is generated for cpu.
    numerics=OVERFLOW
    | {
        "for": {
            "gpu": {
                "without": OVERFLOW["without"]
                | {"weight": "the order of operations decides where an infinite weight and the mean cancel"}
            }
        }
    },
)
def test_group_norm(x, weight, bias, activation):
    return activation(functional.group_norm(x, 4, weight, bias))


@case(
    x=tensor(4, 6, 7, 9, layout=["contiguous", "channels_last"]),
    mean=tensor(6),
    var=tensor(6, low=0.5, high=2),
    weight=tensor(6),
    bias=tensor(6),
    activation={"plain": ACTIVATIONS["plain"], "relu": ACTIVATIONS["relu"]},
    vary="one_at_a_time",
    require={"all": ALONE | {"kernels": 1}},
    # Scale and shift are made of mean and weight before x comes in, so infinities meet in another place.
    numerics={
        "without": {
            "inf": "the order of operations decides where infinities cancel",
            "huge": "the order of operations decides where a product overflows",
        }
    },
)
def test_batch_norm_eval(x, mean, var, weight, bias, activation):
    return activation(functional.batch_norm(x, mean, var, weight, bias))


@case(
    x=tensor(4, 6, 7, 9, layout=["contiguous", "channels_last"]),
    mean=tensor(6),
    var=tensor(6, low=0.5, high=2),
    weight=tensor(6),
    bias=tensor(6),
    grad={"forward": "", "backward": "x weight bias"},
    vary="one_at_a_time",
    require={"all": ALONE},
    numerics=OVERFLOW
    | {
        "for": {
            "gpu channels_last": {
                "without": OVERFLOW["without"]
                | {"inf": "a running mean of infinities is NaN or infinite, by how it is split up"}
            }
        }
    },
)
def test_batch_norm_train(x, mean, var, weight, bias):
    return functional.batch_norm(x, mean, var, weight, bias, training=True)


@case(
    x=tensor(8, 65),
    residual=tensor(8, 65),
    weight=tensor(65),
    require={"all": ALONE | {"kernels": 1}},
    numerics=OVERFLOW,
)
def test_residual_rms_norm(x, residual, weight):
    x = x + residual
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * weight, x
