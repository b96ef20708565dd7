"""reduction: many elements become one, along rows, along columns or of a whole tensor; and scans."""

import torch

from conformance import case, references, tensor

OVERFLOW = {"without": {"huge": "whether a sum of the largest numbers overflows depends on its order"}}

WELFORD = {"without": {"inf": "whether a running mean of infinities is NaN or infinite depends on how it is split"}}
#: For the gradient of a product: eager checks that no factor is zero, the traced graph cannot.
_DIVIDED = "eager divides the product by each factor, the traced gradient multiplies the other factors"
PRODUCT_GRADIENT = {"without": dict.fromkeys(("nan", "inf"), _DIVIDED)}

_ORDER = "whether a product overflows depends on its order"
PRODUCT_OVERFLOW = {"without": {"huge": _ORDER, "exponents": _ORDER}}

NEARLY_ONE = "where an element has nearly the whole sum, its gradient is the difference of two nearly equal numbers"


INDUCTOR_ONLY = {"fallbacks": [], "extern": [], "graph_breaks": 0}
ONE_KERNEL = INDUCTOR_ONLY | {"kernels": 1}
#: A row that fits into a block is reduced at once, without a loop.
PERSISTENT = ONE_KERNEL | {"kinds": ["persistent reduction"]}


@case(
    x=tensor(100, dtype=["f32", "bf16"]),
    require={"all": ONE_KERNEL, "gpu": PERSISTENT, "cpu f32": {"vectorised": "yes"}},
    numerics={"fill": {"output[1]": "the mean is below 0.2; what counts is that its comparison joins the kernel"}},
)
def test_reciprocal_and_mean(x):
    y = 1 / (torch.exp(-x) + 5)
    return y, y.mean() > 0.5


@case(
    x=tensor(dtype=["f32", "f64", "bf16", "i64", "i32", "i8", "u8", "bool"]),
    shape=[(16, 100), (7, 33), (65536,)],
    vary="one_at_a_time",
    require={"16x100": ONE_KERNEL, "gpu 16x100": PERSISTENT, "65536": INDUCTOR_ONLY},
)
def test_sum(x):
    return x.sum(-1)


@case(
    x=tensor(1024, 1024, dtype=["f32", "bf16"]),
    # to use the whole device, each block sums a part, and a second kernel sums the parts
    require={"all": INDUCTOR_ONLY, "cuda": {"kernels": 2}, "cpu": {"kernels": 1}, "cpu f32": {"vectorised": "yes"}},
    numerics={
        "for": {
            "cpu f32": {
                "factor": 16,
                "reason": "each lane adds 8192 elements one after another, eager adds in pairs: measured 85 ulp, "
                "8.7 times eager's error",
            },
        },
    },
)
def test_large_sum(x):
    return x.sum()


# The first half of the terms is negative and the second half positive: sums of parts are far larger than the result.
@case(x=tensor(1 << 20, low=0, high=1), dtype="bf16", require={"all": INDUCTOR_ONLY})
def test_large_sum_that_cancels(x):
    return (x * torch.linspace(-1, 1, 1 << 20, dtype=x.dtype, device=x.device)).sum()


@case(
    x=tensor(100, 16, layout=["contiguous", "transposed"]),
    dim={"rows": 1, "columns": 0},
    require={"all": ONE_KERNEL, "cpu": {"vectorised": "yes"}},
)
def test_mean_of(x, dim):
    return x.mean(dim)


FUNCTIONS = {
    "amax": lambda x: x.amax(-1),
    "amin": lambda x: x.amin(-1),
    "prod": lambda x: x.prod(-1),
    "any": lambda x: (x > 2).any(-1),
    "all": lambda x: (x > -2).all(-1),
    "aminmax": lambda x: torch.aminmax(x, dim=-1),
    "var": lambda x: x.var(-1),
    "logsumexp": lambda x: x.logsumexp(-1),
    "softmax": lambda x: x.softmax(-1),
}


@case(
    x=tensor(16, 100),
    function=FUNCTIONS,
    dtype=["f32", "bf16"],
    vary="one_at_a_time",
    also=[{"function": name, "dtype": "bf16"} for name in ("softmax", "var")],
    require={"all": ONE_KERNEL, "gpu": PERSISTENT},
    numerics={"for": {"prod bf16": PRODUCT_OVERFLOW}},
)
def test_rows(x, function):
    return function(x)


@case(
    x=tensor(16, 100),
    function={name: FUNCTIONS[name] for name in ("softmax", "amax", "var", "prod")},
    grad=True,
    require={"all": {"graph_breaks": 0, "extern": []}},
    numerics={"for": {"prod": PRODUCT_GRADIENT, "gpu softmax": {"factor": 8, "reason": NEARLY_ONE}}},
)
def test_rows_backward(x, function):
    return function(x)


@case(
    x=tensor(16, 1300, dtype=["f32", "bf16"]),
    function={"softmax": FUNCTIONS["softmax"], "var": FUNCTIONS["var"]},
    require={"all": INDUCTOR_ONLY},
    numerics={"for": {"var": OVERFLOW}},
)
def test_long_rows(x, function):
    return function(x)


# There are few different values, so that the first of equal ones must be found.
@case(
    x=tensor(16, 100, low=0, high=5, zeros=0.5, dtype=["i64", "i32", "u8"]),
    function={"argmax": lambda x: x.argmax(-1), "argmin": lambda x: x.argmin(-1), "all": lambda x: x.argmax()},
    vary="one_at_a_time",
    require={"all": ONE_KERNEL},
    numerics={"exact": True},
)
def test_ties(x, function):
    return function(x)


@case(x=tensor(16, 100, dtype=["f32", "bf16"]), require={"all": ONE_KERNEL}, numerics={"exact": True})
def test_argmax(x):
    return x.argmax(-1), x.max(-1)


@case(
    x=tensor(16, 16, layout=["contiguous", "transposed"]),
    y=tensor(16, 16),
    function={
        "max": lambda x: x.max(-1),
        "min_of_columns": lambda x: x.min(0),
        "argmax_of_all": lambda x: x.argmax(),
    },
    require={"all": {"graph_breaks": 0, "extern": []}},
    numerics={"exact": True},
)
def test_argmax_of_a_sum(x, y, function):
    return function(x + y)


@case(
    x=tensor(12, 16, layout=["contiguous", "transposed"]),
    require={"all": {"graph_breaks": 0, "extern": []}},
    numerics={"exact": True},
)
def test_argmax_of_all(x):
    return (x * 2).argmax()


# No element is 0, the value that fills up vectors.
@case(x=tensor(16, 100, low=1, high=100, dtype=["i32", "i16", "u8"]), require={"all": ONE_KERNEL})
def test_extremes_of_integers(x):
    return x.amax(-1), x.amin(-1), x.argmax(-1), x.argmin(-1)


@case(x=tensor(16, 100, dtype=["f32", "f64", "bf16"]), require={"all": ONE_KERNEL}, numerics=WELFORD)
def test_var_mean(x):
    return torch.var_mean(x, -1)


# The mean is far from zero, and the elements differ little.
@case(x=tensor(16, 100, low=100000, high=100004), dtype=["f32", "f64"], require={"all": ONE_KERNEL})
def test_var_of_near_numbers(x):
    return x.var(-1)


# The sum of squares overflows in float32 for about half of the rows. The result does not.
@case(x=tensor(16, 100, low=-3.2e18, high=3.2e18), require={"all": ONE_KERNEL})
def test_std_of_large_numbers(x):
    return x.std(-1)


# The gradient finds the largest element of a row again, by its value.
@case(
    x=tensor(40, 3),
    y=tensor(40, 3),
    function={"exp": lambda x, _: torch.exp(x), "mul": torch.mul},
    grad=True,
    require={"all": {"graph_breaks": 0, "extern": []}},
)
def test_amax_of_a_result(x, y, function):
    return function(x, y).amax(-1)


@case(
    x=tensor(16, 100, dtype=["f32", "i64", "i32", "u8"]),
    require={"gpu": ONE_KERNEL, "all": {"graph_breaks": 0, "extern": []}},
    missed={"cpu": {"fallbacks": [], "judgement": "a cumulative sum is a loop, which could be fused with others"}},
)
def test_cumsum(x):
    return x.cumsum(-1)


@case(
    x=tensor(16, 100),
    function={
        "cumprod": lambda x: x.cumprod(-1),
        "cummax": lambda x: x.cummax(-1),
        "logcumsumexp": lambda x: x.logcumsumexp(-1),
    },
    require={"all": {"graph_breaks": 0}},
    numerics={"for": {"gpu cumprod": {"without": {"huge": _ORDER}}}},
)
def test_scan(x, function):
    return function(x)


@case(
    x=tensor(16, 100, dtype=["f32", "i32"]),
    function={
        "sort": lambda x: torch.sort(x, dim=-1, stable=True),
        "topk": lambda x: x.topk(5, -1),
    },
    require={"all": {"graph_breaks": 0}},
    numerics={"exact": True},
)
def test_order(x, function):
    return function(x)


# Not of integers: their rows have equal elements, and a GPU may return the index of any of them.
@case(
    x=tensor(16, 100),
    require={"all": {"graph_breaks": 0}},
    numerics={
        "exact": True,
        "for": {
            "cuda": {
                "without": {
                    "ties": "on a device, any of the equal elements may be returned",
                    "nan": "on a device, which of several NaN is returned differs between runs",
                }
            }
        },
    },
)
def test_median(x):
    return x.median(-1)


@case(
    x=tensor(8, 100, low=0.1, high=1),
    dynamic=True,
    function={"sum": lambda x: x.sum(-1), "softmax": FUNCTIONS["softmax"], "argmax": lambda x: x.argmax(-1)},
    require={"all": ONE_KERNEL},
)
def test_dynamic(x, function):
    return function(x)


@case(x=tensor(16, 100), y=tensor(16, 100), require={"all": ONE_KERNEL, "gpu": PERSISTENT})
def test_two_sums_of_one_pass(x, y):
    return x.sum(-1), (x * y).sum(-1), x.amax(-1)


test_references = references(
    test_reciprocal_and_mean,
    test_sum,
    test_mean_of,
    test_rows,
    test_rows_backward,
    test_long_rows,
    test_ties,
    test_argmax,
    test_argmax_of_a_sum,
    test_argmax_of_all,
    test_extremes_of_integers,
    test_var_mean,
    test_var_of_near_numbers,
    test_std_of_large_numbers,
    test_amax_of_a_result,
    test_cumsum,
    test_scan,
    test_order,
    test_median,
    test_dynamic,
    test_two_sums_of_one_pass,
    disagree={"aten.cumprod.default": "the Python reference multiplies in another order, which decides what overflows"},
)
