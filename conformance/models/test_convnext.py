"""convnext: torchvision's block of ConvNeXt: a depthwise convolution, then a norm and an MLP with channels last."""

from conformance import case, module, tensor
from conformance.models.declarations import OVERFLOWS, VARIED


def block():
    from torchvision.models.convnext import CNBlock

    return CNBlock(24, layer_scale=0.5, stochastic_depth_prob=0.0)


# x: (batch, channels, height, width).
@case(
    net=module(block),
    x=tensor(2, 24, 9, 11, layout=["contiguous", "channels_last"]),
    **VARIED,
    needs="torchvision",
    require={
        "all": {"graph_breaks": 0},
        "forward": {"fallbacks": [], "extern.convolution": 1},
        "cpu": {"vectorised": "yes"},
        "cpu forward plain": {"kernels": "<=4", "buffers": "<=5", "bytes": "<=8.8"},
        "gpu forward plain": {"kernels": "<=6", "buffers": "<=5", "bytes": "<=11.8"},
    },
    numerics={"without": OVERFLOWS},
)
def test_block(net, x):
    return net(x)
