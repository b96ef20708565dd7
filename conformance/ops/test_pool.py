"""pool: the largest element or the mean of windows, in one to three dimensions, and their gradients."""

import torch
from torch.nn import functional

from conformance import case, references, tensor

INDUCTOR_ONLY = {"fallbacks": [], "extern": [], "graph_breaks": 0}
ONE_KERNEL = INDUCTOR_ONLY | {"kernels": 1}

LINES = {
    "max": lambda x: functional.max_pool1d(x, 3, 2, 1),
    "avg": lambda x: functional.avg_pool1d(x, 4, 3, 2, count_include_pad=False),
    "adaptive_max": lambda x: functional.adaptive_max_pool1d(x, 5),
    "lp": lambda x: functional.lp_pool1d(x, 2, 3),
}


@case(
    x=tensor(2, 3, 23),
    pool=LINES,
    dtype=["f32", "f16"],
    vary="one_at_a_time",
    require={"all": INDUCTOR_ONLY},
)
def test_lines(x, pool):
    return pool(x)


IMAGES = {
    "dilated": lambda x: functional.max_pool2d(x, 3, 2, 1, dilation=2),
    "ceil": lambda x: functional.max_pool2d(x, 2, 2, ceil_mode=True),
    "padding_not_counted": lambda x: functional.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False),
}


@case(
    x=tensor(2, 3, 9, 13),
    pool=IMAGES,
    vary="one_at_a_time",
    require={"all": INDUCTOR_ONLY},
)
def test_images(x, pool):
    return pool(x)


# Without padding and overlap, each element is in one window at most.
@case(
    x=tensor(2, 3, 8, 12),
    pool={
        "max": lambda x: functional.max_pool2d(x, 2),
        "avg": lambda x: functional.avg_pool2d(x, (2, 3)),
        "adaptive": lambda x: functional.adaptive_avg_pool2d(x, (4, 5)),
    },
    dtype="f16",
    grad=True,
    vary="one_at_a_time",
    require={"all": {"graph_breaks": 0, "extern": []}},
)
def test_backward(x, pool):
    return pool(x)


# Windows that do not touch leave elements between them without a gradient, and the last windows may have no place.
@case(
    x=tensor(2, 3, 8, 12),
    pool={
        "max_apart": lambda x: functional.max_pool2d(x, 2, 3),
        "avg_apart": lambda x: functional.avg_pool2d(x, 2, 3),
        "avg_overlapping": lambda x: functional.avg_pool2d(x, (3, 5), (2, 3)),
    },
    grad=True,
    require={"all": {"graph_breaks": 0, "extern": []}},
)
def test_windows_backward(x, pool):
    return pool(x)


@case(
    x=tensor(shape={"one_image": (1, 3, 8, 12), "without_batch": (3, 8, 12)}),
    pool={
        "max": lambda x: functional.max_pool2d(x, 3, 2, 1),
        "avg": lambda x: functional.avg_pool2d(x, 3, 2, 1),
        "adaptive": lambda x: functional.adaptive_avg_pool2d(x, (4, 5)),
    },
    grad=True,
    vary="one_at_a_time",
    require={"all": {"graph_breaks": 0, "extern": []}},
)
def test_single_backward(x, pool):
    return pool(x)


@case(
    x=tensor(1, 2, 5, 7, 6),
    pool={
        "max": lambda x: functional.max_pool3d(x, 2, 2),
        "avg": lambda x: functional.avg_pool3d(x, 3, 2, 1),
        "adaptive": lambda x: functional.adaptive_avg_pool3d(x, 2),
    },
    require={"all": {"graph_breaks": 0, "extern": []}},
)
def test_volumes(x, pool):
    return pool(x)


@case(
    x=tensor(2, 3, 8, 12),
    require={"all": {"graph_breaks": 0, "extern": []}},
    numerics={"exact": True},
)
def test_unpool(x):
    values, places = functional.max_pool2d(x, 2, return_indices=True)
    return functional.max_unpool2d(values, places, 2), torch.ops.aten.max_pool2d(x, [3, 3], [1, 1], [1, 1])


test_references = references(
    test_lines, test_images, test_backward, test_windows_backward, test_single_backward, test_volumes, test_unpool
)
