"""detection: heads of torchvision's detectors, which run on each level of a feature pyramid."""

from conformance import case, group, module, tensor
from conformance.models.declarations import VARIED


def rpn_head():
    from torchvision.models.detection.rpn import RPNHead

    return RPNHead(16, num_anchors=3)


def retinanet_head():
    from torchvision.models.detection.retinanet import RetinaNetHead

    return RetinaNetHead(16, num_anchors=3, num_classes=5)


# levels: (batch, channels, height, width) each.
@case(
    net=module({"rpn": rpn_head, "retinanet": retinanet_head}),
    levels=group([tensor(1, 16, 9, 11), tensor(1, 16, 5, 6)], layout=["contiguous", "channels_last"]),
    **VARIED,
    needs="torchvision",
    require={
        "all": {"graph_breaks": 0},
        "forward": {"fallbacks": []},
        "rpn forward": {"extern.convolution": 6, "buffers": "<=18", "bytes": "<=5.3"},
        "retinanet": {"extern.convolution": 20, "bytes": "<=7.1"},
        "cpu forward plain": {"vectorised": "yes"},
        "cpu rpn forward plain": {"kernels": "<=7"},
        "gpu rpn forward plain": {"kernels": "<=9"},
        "cpu retinanet": {"kernels": "<=13"},
        "gpu retinanet": {"kernels": "<=30"},
    },
)
def test_head(net, levels):
    return net(levels)
