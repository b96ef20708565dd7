"""resize: other sizes over the same elements in memory; and the gradient of images enlarged by repeating pixels."""

import torch

from conformance import case, tensor

aten = torch.ops.aten

INDUCTOR_ONLY = {"fallbacks": [], "extern": [], "graph_breaks": 0}
EXACT = {"exact": True}


# Elements beyond the old ones are not initialised, so no result is larger than x.
@case(
    x=tensor(6, 8),
    resized={
        "smaller": lambda x: aten.resize(x + 1, [5, 4]),
        "of_transposed": lambda x: aten.resize(x.mT, [3, 4]),
        "of_expanded": lambda x: aten.resize(x[:1].expand(6, 8), [3, 4]),
        "channels_last": lambda x: aten.resize(x * 2, [1, 3, 2, 4], memory_format=torch.channels_last),
    },
    require={"all": INDUCTOR_ONLY},
    numerics=EXACT,
)
def test_resize(x, resized):
    return resized(x)


# The gradients of all pixels that are copies of one are added: the same number for each, or not.
@case(
    gradient=tensor(2, 3, 8, 9),
    size={"same_number": (4, 3), "other_numbers": (3, 5)},
    require={"all": INDUCTOR_ONLY},
)
def test_enlarged_backward(gradient, size):
    return aten.upsample_nearest2d_backward(gradient, [8, 9], [2, 3, *size])
