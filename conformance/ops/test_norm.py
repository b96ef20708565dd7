"""norm: layer, RMS, group and batch normalisation, alone and with an activation after them."""

import torch

from conformance import case, edges, references, tensor

functional = torch.nn.functional

OVERFLOW = {"without": {"huge": "whether a sum of the largest numbers overflows depends on its order"}}
INFINITE_MEAN = {"inf": "whether a running mean of infinities is NaN or infinite depends on how it is split"}
INFINITE_WEIGHT = {"weight": "the order of operations decides where an infinite weight and the mean cancel"}

ONE_VALUE = "one large value has nearly the whole variance, so the others are differences of nearly equal numbers"

INDUCTOR_ONLY = {"fallbacks": [], "extern": [], "graph_breaks": 0}

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
        "forward": INDUCTOR_ONLY | {"kernels": 1},
        "gpu forward": {"kinds": ["persistent reduction"]},
        "cpu f32 forward": {"vectorised": "yes"},
        "backward": {"fallbacks": [], "extern": []},
    },
    numerics={
        "for": {
            "backward": {"without": OVERFLOW["without"] | INFINITE_WEIGHT},
            "cuda relu": {"factor": 8, "reason": f"{ONE_VALUE}: on an H200 31 ulp, 5 times eager's error"},
        }
    },
)
def test_layer_norm(x, weight, bias, activation):
    return activation(functional.layer_norm(x, (65,), weight, bias))


@case(
    x=tensor(8, 65),
    weight=tensor(65),
    dtype=["f32", "bf16"],
    grad=[False, True],
    require={"forward": INDUCTOR_ONLY | {"kernels": 1}, "backward": {"graph_breaks": 0, "extern": []}},
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
    # Eager first computes a scale and a shift from mean, weight and bias. So does the code for cpu.
    numerics=OVERFLOW
    | {
        "for": {
            "gpu": {"without": INFINITE_WEIGHT},
            "gpu backward": {"factor": 8, "reason": ONE_VALUE},
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
    require={"all": INDUCTOR_ONLY | {"kernels": 1}},
    # Eager first computes a scale and a shift from mean and weight, so infinities meet in other operations.
    numerics={"without": {"inf": "the order of operations decides where infinities cancel"}},
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
    require={"all": INDUCTOR_ONLY},
    numerics={
        "without": INFINITE_WEIGHT | INFINITE_MEAN,
        "for": {
            "backward": {"without": OVERFLOW["without"] | INFINITE_WEIGHT | INFINITE_MEAN},
            "channels_last": {"without": OVERFLOW["without"] | INFINITE_WEIGHT | INFINITE_MEAN},
        },
    },
)
def test_batch_norm_train(x, mean, var, weight, bias):
    return functional.batch_norm(x, mean, var, weight, bias, training=True)


@case(
    x=tensor(8, 65),
    residual=tensor(8, 65),
    weight=tensor(65),
    require={"all": INDUCTOR_ONLY | {"kernels": 1}},
)
def test_residual_rms_norm(x, residual, weight):
    x = x + residual
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * weight, x


@case(
    x=tensor(8, 5, 13, layout=["contiguous", "transposed"]),
    shape={"last": (13,), "last_two": (5, 13)},
    dtype=["f32", "f64"],
    vary="one_at_a_time",
    require={"all": INDUCTOR_ONLY | {"kernels": 1}},
)
def test_layer_norm_without_weight(x, shape):
    return functional.layer_norm(x, shape)


# The mean of one element is the element, and its variance is 0.
@case(x=tensor(), shape=edges(5, None, sizes=(1,)), require={"all": INDUCTOR_ONLY})
def test_sizes(x):
    return functional.layer_norm(x, x.shape[-1:]), functional.rms_norm(x, x.shape[-1:])


@case(
    x=tensor(8, 33, dtype="f16"),
    dynamic=[False, True],
    require={"all": INDUCTOR_ONLY | {"kernels": 1}},
)
def test_rms_norm_without_weight(x):
    return functional.rms_norm(x, x.shape[-1:])


# Models compute the norm of 16-bit values in float32.
@case(
    x=tensor(8, 33),
    weight=tensor(33),
    dtype="bf16",
    grad=[False, True],
    require={"all": INDUCTOR_ONLY, "forward": {"kernels": 1}},
    numerics={"for": {"backward": {"factor": 4, "reason": ONE_VALUE}}},
)
def test_rms_norm_in_float32(x, weight):
    wide = x.float()
    return weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)


@case(
    x=tensor(2, 6, 5, 9, dtype=["f32", "f16"], layout=["contiguous", "channels_last"]),
    norm={
        "instance": functional.instance_norm,
        "layer_of_channels": lambda x: functional.layer_norm(x.permute(0, 2, 3, 1), (6,)).permute(0, 3, 1, 2),
    },
    vary="one_at_a_time",
    require={"all": INDUCTOR_ONLY},
    numerics={
        "for": {"cpu instance f32": {"factor": 16, "reason": f"{ONE_VALUE}: measured 11 ulp, 19 times eager's error"}}
    },
)
def test_of_images(x, norm):
    return norm(x)


@case(x=tensor(2, 6, 5, 9), require={"all": INDUCTOR_ONLY})
def test_local_response(x):
    return functional.local_response_norm(x, 3)


@case(
    x=tensor(2, 6, 5, 9),
    norm={
        "instance": functional.instance_norm,
    },
    grad=True,
    require={"all": INDUCTOR_ONLY},
    numerics={"factor": 8, "reason": ONE_VALUE},
)
def test_of_images_backward(x, norm):
    return norm(x)


# The running mean and variance are changed in place.
@case(
    x=tensor(dtype=["f32", "bf16"], shape=[(12, 6), (2, 6, 3, 4, 5)]),
    mean=tensor(6, dtype="f32"),
    var=tensor(6, dtype="f32", low=0.5, high=2),
    vary="one_at_a_time",
    require={"all": INDUCTOR_ONLY},
    numerics={"without": INFINITE_MEAN},
)
def test_batch_norm_of_other_shapes(x, mean, var):
    return functional.batch_norm(x, mean, var, training=True)


@case(
    v=tensor(7, 20),
    g=tensor(7, 1),
    grad=True,
    require={"all": INDUCTOR_ONLY},
    numerics={"factor": 16, "reason": f"{ONE_VALUE}: measured 10 times eager's error"},
)
def test_weight_norm(v, g):
    return v * (g / torch.linalg.vector_norm(v, dim=1, keepdim=True))


test_references = references(
    test_layer_norm,
    test_rms_norm,
    test_group_norm,
    test_batch_norm_eval,
    test_batch_norm_train,
    test_layer_norm_without_weight,
    test_sizes,
    test_rms_norm_without_weight,
    test_of_images,
    test_local_response,
    test_of_images_backward,
    test_batch_norm_of_other_shapes,
    test_weight_norm,
    disagree={
        # With torch 2.8, Intel's extension replaces layer_norm and group_norm: eager does not call these two.
        "aten.native_layer_norm.default torch>=2.11": "its mean: eager's running mean of infinities is NaN",
        "aten.native_group_norm.default torch>=2.11": "likewise; eager's depends on the layout as well",
        "aten.native_batch_norm.default": (
            "likewise; and for 16-bit inputs with float32 statistics eager saves float32, the decomposition 16 bits"
        ),
    },
)
