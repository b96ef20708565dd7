"""scan: sums, products and extremes that keep every step; a kernel of their own on gpus, eager's on cpu."""

import torch

from conformance import case, edges, references, tensor

CPU_FALLS_BACK = "a scan that keeps every step is a loop, and could be fused with others"
GAPS = {"cpu": {"fallbacks": [], "judgement": CPU_FALLS_BACK}}

ALONE = {"extern": [], "graph_breaks": 0}
ONE_KERNEL = {"all": ALONE, "gpu": ALONE | {"kernels": 1, "fallbacks": []}}

PRODUCTS = {"without": {"huge": "products overflow on the way, by their order"}}
#: Eager knows that no factor is zero; before 2.13, when it was traced, nobody did.
_DIVIDED = "eager divides the products by each factor, the traced gradient multiplies the others"
DIVIDED = {"without": PRODUCTS["without"] | {"nan": _DIVIDED, "inf": _DIVIDED}}

SCANS = {
    "cumsum": lambda x, dim: x.cumsum(dim),
    "cumprod": lambda x, dim: x.cumprod(dim),
    "cummax": lambda x, dim: x.cummax(dim),
    "cummin": lambda x, dim: x.cummin(dim),
    "logcumsumexp": lambda x, dim: x.logcumsumexp(dim),
}


@case(
    x=tensor(12, 20),
    scan=SCANS,
    require=ONE_KERNEL,
    missed=GAPS,
    numerics={"for": {"cumprod": PRODUCTS}},
)
def test_columns(x, scan):
    return scan(x, 0)


@case(
    x=tensor(12, 20, dtype=["i16", "bool"]),
    scan={name: SCANS[name] for name in ("cumsum", "cumprod")},
    vary="one_at_a_time",
    require=ONE_KERNEL,
    missed=GAPS,
    numerics={"for": {"cumprod": PRODUCTS}},
)
def test_dtypes(x, scan):
    return scan(x, -1)


@case(
    x=tensor(12, 20, low=0, high=6, dtype="i32"),
    scan={name: SCANS[name] for name in ("cummax", "cummin")},
    require=ONE_KERNEL,
    missed=GAPS,
)
def test_extremes_with_ties(x, scan):
    return scan(x, 0)


@case(
    x=tensor(12, 20, dtype="u8"),
    require=ONE_KERNEL,
    missed=GAPS,
)
def test_cumsum_as_another_dtype(x):
    return x.cumsum(-1, dtype=torch.float32)


@case(x=tensor(), shape=edges(3, None, sizes=(0, 1025)), require={"all": ALONE}, missed={"cpu 3x1025": GAPS["cpu"]})
def test_sizes(x):
    return x.cumsum(-1), x.cummax(-1)


@case(x=tensor(9, 33), dynamic=True, require=ONE_KERNEL, missed=GAPS)
def test_dynamic(x):
    return x.cumsum(-1)


@case(
    x=tensor(12, 20),
    y=tensor(12, 20),
    function={
        "from_the_right": lambda x, _: x.flip(-1).cumsum(-1).flip(-1),
    },
    require={"all": {"graph_breaks": 0, "extern": []}, "gpu": {"fallbacks": []}},
    missed=GAPS,
)
def test_with_pointwise(x, y, function):
    return function(x, y)


@case(
    x=tensor(12, 20),
    scan={name: SCANS[name] for name in ("cumsum", "cumprod", "cummax", "logcumsumexp")},
    grad=True,
    require={"all": ALONE},
    numerics={"for": {"cumprod": PRODUCTS, "cumprod torch<2.13": DIVIDED}},
)
def test_backward(x, scan):
    return scan(x, -1)


test_references = references(
    test_columns,
    test_dtypes,
    test_extremes_with_ties,
    test_cumsum_as_another_dtype,
    test_sizes,
    test_with_pointwise,
    test_backward,
)


#: What is known while compiling: positions, and a single number.
CONSTANTS = {
    "positions": lambda x: torch.ones(x.size(-1), device=x.device).cumsum(0),
    "number": lambda x: torch.tensor(5.0, device=x.device).cumsum(0),
}


@case(x=tensor(9, 20), constant=CONSTANTS, require={"all": {"graph_breaks": 0}})
def test_of_a_constant(x, constant):
    return x * constant(x)
