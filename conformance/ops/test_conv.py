"""conv: convolutions, which call a library, and pooling, which Inductor compiles; in both layouts of images."""

import torch

from conformance import case, references, tensor

functional = torch.nn.functional

LAYOUTS = ["contiguous", "channels_last"]
OVERFLOW = {"without": {"huge": "whether a sum of the largest numbers overflows depends on its order"}}
#: Seen on an AMD EPYC without AVX-512, on the CPU and emulated: eager and compiled call kernels for different layouts.
SUM_OF_LIBRARY = (
    "the processor and the layout decide in which order the library adds, and so whether and where a sum overflows"
)
INFINITE = {"without": {"inf": SUM_OF_LIBRARY}}
ZEROS_AROUND = "layout, dtype and processor decide whether eager multiplies a NaN by the zeros around an image"


@case(
    x=tensor(2, 8, 11, 13, layout=LAYOUTS),
    weight=tensor(12, 8, 3, 3),
    bias=tensor(12),
    activation={"plain": lambda x: x, "relu": torch.relu},
    dtype=["f32", "bf16"],
    grad=[False, True],
    dynamic=[False, True],
    vary="one_at_a_time",
    require={"all": {"graph_breaks": 0}},
    numerics={
        "for": {
            "contiguous f32": INFINITE,
            "cpu contiguous bf16": {"without": {"huge": f"{SUM_OF_LIBRARY}; this differs between seeds"}},
            "dynamic": {
                "without": INFINITE["without"] | {"sizes": "Inductor makes the sizes of a convolution's weight static"}
            },
            "backward": INFINITE,
            "gpu bf16": {
                "factor": 16,
                "reason": "on a device, the library rounds its sums to bfloat16 before it adds the bias: emulated, "
                "measured 3 ulp, 12 times eager's error",
            },
        },
    },
)
def test_conv2d(x, weight, bias, activation):
    return activation(functional.conv2d(x, weight, bias, padding=1))


@case(
    x=tensor(2, 8, 11, 13),
    weight=tensor(8, 1, 3, 3),
    options={"strided": dict(stride=2), "dilated": dict(dilation=2)},
    require={"all": {"graph_breaks": 0}},
)
def test_depthwise(x, weight, options):
    return functional.conv2d(x, weight, groups=8, **options)


@case(x=tensor(2, 8, 33), weight=tensor(12, 8, 3), grad=[False, True], require={"all": {"graph_breaks": 0}})
def test_conv1d(x, weight):
    return functional.conv1d(x, weight)


@case(x=tensor(2, 8, 5, 7), weight=tensor(8, 6, 3, 3), require={"all": {"graph_breaks": 0}})
def test_conv_transpose2d(x, weight):
    return functional.conv_transpose2d(x, weight, stride=2)


@case(
    x=tensor(2, 8, 7, 9),
    weight=tensor(12, 8, 1, 1),
    dtype=["f32", "bf16"],
    require={"all": {"graph_breaks": 0}},
)
def test_pointwise_conv(x, weight):
    return functional.conv2d(x, weight)


POOLS = {
    "max": lambda x: functional.max_pool2d(x, 3, 2, 1),
    "avg": lambda x: functional.avg_pool2d(x, 3, 2, 1),
    "avg_ceil": lambda x: functional.avg_pool2d(x, 2, 2, ceil_mode=True),
    "adaptive_max": lambda x: functional.adaptive_max_pool2d(x, (4, 5)),
    "whole": lambda x: functional.adaptive_avg_pool2d(x, 1),
}


@case(
    x=tensor(2, 8, 11, 13, layout=LAYOUTS),
    pool=POOLS,
    dtype=["f32", "bf16"],
    vary="one_at_a_time",
    also=[{"pool": "avg", "x.layout": "channels_last"}],
    require={"all": {"graph_breaks": 0, "extern": [], "fallbacks": [], "kernels": 1}},
)
def test_pool(x, pool):
    return pool(x)


@case(
    x=tensor(2, 8, 11, 13, layout=LAYOUTS),
    pool={name: POOLS[name] for name in ("whole", "avg_ceil", "max")},
    grad=True,
    vary="one_at_a_time",
    require={"all": {"graph_breaks": 0, "extern": []}},
    numerics={
        "for": {
            "whole": {
                "factor": 8,
                "reason": "a mean of 143 elements: each lane adds its elements one after another",
            }
        }
    },
)
def test_pool_backward(x, pool):
    return pool(x)


@case(
    x=tensor(2, 8, 11, 13),
    indices=[True],
    require={"all": {"graph_breaks": 0, "extern": [], "fallbacks": []}},
    numerics={"exact": True},
)
def test_max_pool_with_indices(x, indices):
    return functional.max_pool2d(x, 2, return_indices=indices)


#: Convolutions of x (2, 4, 9, 11) with w (4, 4, 3, 3) or with fewer of its channels.
CONVOLUTIONS = {
    "grouped_relu": lambda x, w: torch.relu(functional.conv2d(x, w[:, :2], groups=2, padding=1)) + x,
    "depthwise_normalised": lambda x, w: functional.conv2d(x, w[:, :1], groups=4, padding=1).sub(x.mean()).mul(2),
    "same": lambda x, w: functional.conv2d(x, w, padding="same", dilation=2),
    "transposed_grouped": lambda x, w: functional.conv_transpose2d(x, w[:, :2], stride=2, groups=2, output_padding=1),
    "no_batch": lambda x, w: functional.conv2d(x[0], w),
}


@case(
    x=tensor(2, 4, 9, 11),
    weight=tensor(4, 4, 3, 3),
    convolve=CONVOLUTIONS,
    require={"all": {"graph_breaks": 0}},
    numerics={"without": OVERFLOW["without"] | {"weight": ZEROS_AROUND}},
)
def test_convolutions(x, weight, convolve):
    return convolve(x, weight)


test_references = references(
    test_conv2d, test_depthwise, test_conv1d, test_conv_transpose2d, test_pointwise_conv, test_convolutions
)
test_references_of_pools = references(test_pool, test_pool_backward, test_max_pool_with_indices)


@case(
    x=tensor(2, 3, 6, 7),
    weight=tensor(4, 3, 3, 3),
    grad=True,
    require={"all": {"graph_breaks": 0}},
    numerics={"for": {"cpu": OVERFLOW, "xpu": OVERFLOW}},
)
def test_pooled_beside(x, weight):
    y = functional.conv2d(x, weight, padding=1)
    return y * functional.max_pool2d(y, 3, 1, 1)
