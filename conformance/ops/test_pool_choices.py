"""pool_choices: what decides how Inductor lowers a pool: sizes of windows, dilation, samples that place the windows."""

from torch.nn import functional

from conformance import case, references, tensor

INDUCTOR_ONLY = {"fallbacks": [], "extern": [], "graph_breaks": 0}
NO_EXTERN = {"extern": [], "graph_breaks": 0}


# A window of up to 25 elements becomes one expression, and its largest element's place a number of 8 bits. For a larger
# window, Inductor makes two loops.
@case(
    x=tensor(2, 3, 12, 14),
    pool={
        "window_of_25": lambda x: functional.max_pool2d(x, 5, 3, 2, return_indices=True),
        "window_of_36": lambda x: functional.max_pool2d(x, 6, 3, 2, return_indices=True),
        "window_of_36_dilated": lambda x: functional.max_pool2d(x, 6, 2, dilation=2, return_indices=True),
    },
    vary="one_at_a_time",
    require={"all": INDUCTOR_ONLY, "window_of_25": {"kernels": 1}},
    numerics={"exact": True},
)
def test_max_windows(x, pool):
    return pool(x)


@case(
    x=tensor(1, 2, 6, 7, 6),
    window={"of_8": 2, "of_64": 4},
    require={"all": INDUCTOR_ONLY},
    numerics={"exact": True},
)
def test_max_windows_of_volumes(x, window):
    return functional.max_pool3d(x, window, 2, 1, return_indices=True)


# The average of a window of more than 25 elements is a library call, unless the windows lie side by side.
@case(
    x=tensor(2, 3, 12, 14),
    pool={
        "overlapping": lambda x: functional.avg_pool2d(x, 6, 3),
        "side_by_side": lambda x: functional.avg_pool2d(x, 6),
        "divisor": lambda x: functional.avg_pool2d(x, 3, 2, 1, divisor_override=4),
    },
    require={"all": NO_EXTERN, "overlapping": {"fallbacks": ["aten.avg_pool2d"]}, "side_by_side": {"fallbacks": []}},
)
def test_mean_windows(x, pool):
    return pool(x)


# An element is in 4 or 36 windows at most. Above 25 (125 for volumes), the gradient is a library call.
@case(
    x=tensor(2, 3, 12, 14),
    pool={
        "padding_not_counted": lambda x: functional.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False),
        "divisor": lambda x: functional.avg_pool2d(x, 3, 2, 1, divisor_override=4),
        "in_36_windows": lambda x: functional.avg_pool2d(x, 6, 1),
    },
    grad=True,
    require={"all": NO_EXTERN, "in_36_windows": {"fallbacks": ["aten.avg_pool2d", "aten.avg_pool2d_backward"]}},
)
def test_mean_backward(x, pool):
    return pool(x)


@case(
    x=tensor(1, 2, 6, 7, 6),
    pool={
        "padding_counted": lambda x: functional.avg_pool3d(x, 3, 2, 1),
        "padding_not_counted": lambda x: functional.avg_pool3d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False),
        "divisor": lambda x: functional.avg_pool3d(x, 2, divisor_override=3),
        "in_216_windows": lambda x: functional.avg_pool3d(x, 6, 1, 3),
    },
    grad=True,
    require={"all": NO_EXTERN},
)
def test_mean_backward_of_volumes(x, pool):
    return pool(x)


# 11 and 13 cannot be divided by 4 and 5, so the windows have several sizes.
@case(
    x=tensor(2, 3, 11, 13),
    pool={
        "mean": lambda x: functional.adaptive_avg_pool2d(x, (4, 5)),
        "max": lambda x: functional.adaptive_max_pool2d(x, (4, 5), return_indices=True),
        "mean_of_large_windows": lambda x: functional.adaptive_avg_pool2d(x, (2, 2)),
        "max_of_large_windows": lambda x: functional.adaptive_max_pool2d(x, (2, 2), return_indices=True),
        "same_size": lambda x: functional.adaptive_avg_pool2d(x, (11, 13)),
        "nothing": lambda x: functional.adaptive_avg_pool2d(x, (0, 5)),
    },
    require={
        "all": NO_EXTERN,
        "mean": {"fallbacks": []},
        "max": {"fallbacks": []},
        "mean_of_large_windows": {"fallbacks": ["aten._adaptive_avg_pool2d"]},
        "max_of_large_windows": {"fallbacks": ["aten.adaptive_max_pool2d"]},
    },
    numerics={"for": {"nothing": {"fill": {"output": "the result has no rows"}}}},
)
def test_adaptive(x, pool):
    return pool(x)


# With samples given, the places of the windows are no random numbers.
@case(
    x=tensor(2, 3, 9, 11),
    samples=tensor(2, 3, 2, low=0, high=1),
    window={"of_6": (2, 3), "of_30": (5, 6)},
    require={"all": INDUCTOR_ONLY},
)
def test_fractional(x, samples, window):
    return functional.fractional_max_pool2d(x, window, (4, 3), return_indices=True, _random_samples=samples)


@case(x=tensor(3, 9, 11), samples=tensor(1, 3, 2, low=0, high=1), require={"all": INDUCTOR_ONLY})
def test_fractional_without_batch(x, samples):
    return functional.fractional_max_pool2d(x, 2, (4, 3), return_indices=True, _random_samples=samples)


@case(
    x=tensor(1, 4, 7, 9, 9),
    samples=tensor(1, 4, 3, low=0, high=1),
    require={"all": INDUCTOR_ONLY},
)
def test_fractional_volumes(x, samples):
    return functional.fractional_max_pool3d(x, 2, (3, 4, 3), return_indices=True, _random_samples=samples)


# On xpu this gradient is read from the windows around each element. Elsewhere it is added at computed positions.
@case(
    x=tensor(2, 3, 8, 12),
    pool={
        "overlapping": lambda x: functional.max_pool2d(x, 3, 2, 1),
        "dilated": lambda x: functional.max_pool2d(x, 3, 2, 1, dilation=2),
        "in_36_windows": lambda x: functional.max_pool2d(x, 6, 1),
    },
    grad=True,
    require={"all": NO_EXTERN},
)
def test_max_backward(x, pool):
    return pool(x)


test_references = references(test_max_windows, test_mean_windows, test_mean_backward, test_adaptive)
