"""resnet: torchvision's basic block of ResNet, with and without a convolution of the shortcut."""

from conformance import case, module, tensor
from conformance.models.declarations import OVERFLOWS

ROUNDED_BEFORE_RELU = {
    "exponents": "whether ReLU passes a sum near 0 depends on where bfloat16 is rounded: with GELU instead, all agree",
}


def block(downsample):
    from torch import nn
    from torchvision.models.resnet import BasicBlock

    if not downsample:
        return BasicBlock(16, 16)
    shortcut = nn.Sequential(nn.Conv2d(16, 24, 1, stride=2, bias=False), nn.BatchNorm2d(24))
    return BasicBlock(16, 24, stride=2, downsample=shortcut)


# x: (batch, channels, height, width). The norms have the statistics of the module.
@case(
    net=module(block, downsample={"straight": False, "downsample": True}, training=False),
    x=tensor(2, 16, 9, 11, layout=["contiguous", "channels_last"]),
    dtype=["f32", "bf16"],
    mode=["plain", "autocast"],
    dynamic=[False, True],
    vary="one_at_a_time",
    needs="torchvision",
    require={
        "all": {"graph_breaks": 0, "fallbacks": [], "buffers": "<=4", "bytes": "<=4.5"},
        "straight": {"extern.convolution": 2},
        "downsample": {"extern.convolution": 3},
        "cpu": {"vectorised": "yes", "kernels": "<=3"},
        "gpu": {"kernels": "<=5"},
    },
)
def test_block(net, x):
    return net(x)


# The norms have the statistics of the batch, and change those of the module.
@case(
    net=module(block, downsample=False, training=True),
    x=tensor(2, 16, 9, 11, layout=["contiguous", "channels_last"]),
    dtype=["f32", "bf16"],
    mode=["plain", "autocast"],
    grad=True,
    vary="one_at_a_time",
    needs="torchvision",
    require={
        "all": {"graph_breaks": 0, "bytes": "<=2.8", "extern.convolution": 2, "fallbacks.aten.convolution_backward": 2},
        "cpu": {"vectorised": "yes", "kernels": "<=6"},
        "cuda contiguous": {"kernels": "<=12"},
    },
    numerics={"without": OVERFLOWS, "for": {"cpu bf16": {"without": OVERFLOWS | ROUNDED_BEFORE_RELU}}},
)
def test_training(net, x):
    return net(x)
