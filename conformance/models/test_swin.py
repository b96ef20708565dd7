"""swin: torchvision's block of Swin: attention in windows, which are shifted, with a bias of relative positions."""

from conformance import case, module, tensor
from conformance.models.declarations import HUGE_OVERFLOWS, VARIED

#: Without dynamic shapes: torch guards on whether the width is padded, so that other widths compile again; and sizes
#: that are padded to whole windows take it 40 s to simplify.
OF_ONE_SIZE = {axis: values for axis, values in VARIED.items() if axis != "dynamic"}


def block(shift):
    from torchvision.models.swin_transformer import SwinTransformerBlock

    return SwinTransformerBlock(24, 3, window_size=[4, 4], shift_size=[shift, shift], mlp_ratio=2.0)


# x: (batch, height, width, channels). The windows do not fit the height: it is padded.
@case(
    net=module(block, shift={"straight": 0, "shifted": 2}),
    x=tensor(1, 7, 8, 24),
    **OF_ONE_SIZE,
    needs="torchvision",
    require={
        "all": {"graph_breaks": 0, "fallbacks": []},
        "forward": {"extern.bmm": 2},
        "cpu forward plain": {"kernels": "<=7", "buffers": "<=16", "bytes": "<=10.6"},
        "gpu forward plain": {"kernels": "<=12", "buffers": "<=10", "bytes": "<=9.2"},
    },
    numerics={"without": HUGE_OVERFLOWS},
)
def test_block(net, x):
    return net(x)
