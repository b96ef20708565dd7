"""scan: cumulative sums, products and extremes. GPUs have a kernel for them; on cpu Inductor leaves them to eager."""

import torch

from conformance import case, edges, references, tensor

FUSIBLE = "a scan is a loop, which could be fused with others"
MISSED = {"cpu": {"fallbacks": [], "judgement": FUSIBLE}}

NO_EXTERN = {"extern": [], "graph_breaks": 0}
ONE_KERNEL = {"all": NO_EXTERN, "gpu": NO_EXTERN | {"kernels": 1, "fallbacks": []}}

PRODUCTS = {"without": {"huge": "whether a product overflows depends on its order"}}
#: Eager checks that no factor is zero; before torch 2.13 the traced graph could not.
_DIVIDED = "eager divides the products by each factor, the traced gradient multiplies the other factors"
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
    missed=MISSED,
)
def test_columns(x, scan):
    return scan(x, 0)


@case(
    x=tensor(12, 20, dtype=["i16", "bool"]),
    scan={name: SCANS[name] for name in ("cumsum", "cumprod")},
    vary="one_at_a_time",
    require=ONE_KERNEL,
    missed=MISSED,
)
def test_dtypes(x, scan):
    return scan(x, -1)


@case(
    x=tensor(12, 20, low=0, high=6, dtype="i32"),
    scan={name: SCANS[name] for name in ("cummax", "cummin")},
    require=ONE_KERNEL,
    missed=MISSED,
)
def test_extremes_with_ties(x, scan):
    return scan(x, 0)


@case(
    x=tensor(12, 20, dtype="u8"),
    require=ONE_KERNEL,
    missed=MISSED,
)
def test_cumsum_as_another_dtype(x):
    return x.cumsum(-1, dtype=torch.float32)


@case(
    x=tensor(),
    shape=edges(3, None, sizes=(0, 1025)),
    require={"all": NO_EXTERN},
    missed={"cpu 3x1025": MISSED["cpu"]},
    numerics={
        "for": {"3x0": {"fill": dict.fromkeys(("output[0]", "output[1][0]", "output[1][1]"), "it has no elements")}},
    },
)
def test_sizes(x):
    return x.cumsum(-1), x.cummax(-1)


@case(x=tensor(9, 33), dynamic=True, require=ONE_KERNEL, missed=MISSED)
def test_dynamic(x):
    return x.cumsum(-1)


@case(
    x=tensor(12, 20),
    y=tensor(12, 20),
    function={
        "from_the_right": lambda x, _: x.flip(-1).cumsum(-1).flip(-1),
    },
    require={"all": {"graph_breaks": 0, "extern": []}, "gpu": {"fallbacks": []}},
    missed=MISSED,
)
def test_with_pointwise(x, y, function):
    return function(x, y)


@case(
    x=tensor(12, 20),
    scan={name: SCANS[name] for name in ("cumsum", "cumprod", "cummax", "logcumsumexp")},
    grad=True,
    require={"all": NO_EXTERN},
    numerics={"for": {"gpu cumprod": PRODUCTS, "cumprod torch<2.13": DIVIDED}},
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


#: Values that are known at compile time: positions, and a single number.
CONSTANTS = {
    "positions": lambda x: torch.ones(x.size(-1), device=x.device).cumsum(0),
    "number": lambda x: torch.tensor(5.0, device=x.device).cumsum(0),
}


@case(x=tensor(9, 20), constant=CONSTANTS, require={"all": {"graph_breaks": 0}})
def test_of_a_constant(x, constant):
    return x * constant(x)


@case(x=tensor(2, 3), checks=["numerics"])
def test_sum_of_ones(x):
    return torch.ones_like(x, dtype=torch.int64).cumsum(0)
