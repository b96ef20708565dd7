"""overloads: forms of operators that Inductor lowers in a way of their own: scalars, single elements, regions."""

import torch
from torch import _higher_order_ops
from torch._higher_order_ops import InvokeQuant

from conformance import case, tensor

quantized = torch.ops.quantized_decomposed
ONE_GRAPH = {"graph_breaks": 0}
INDUCTOR_ONLY = {"fallbacks": [], "extern": [], "graph_breaks": 0}


# No kernel has a loop along a dimension of one element, and the index is a constant.
@case(
    x=tensor(1, 5),
    require={"all": INDUCTOR_ONLY, "gpu": {"kinds.reduction": 0, "kinds.persistent reduction": 0}},
    numerics={"fill": dict.fromkeys(("output[0][1]", "output[1][1]"), "it is the index of the only element")},
)
def test_one_element(x):
    return x.max(0), x.min(0)


# A tensor without dimensions: there is nothing to scan, and gather reads the same element for each index.
@case(x=tensor(shape={"scalar": ()}), require={"all": INDUCTOR_ONLY, "cpu": {"fallbacks": ["aten.scatter_reduce_"]}})
def test_scalars(x):
    place = torch.zeros((), dtype=torch.int64, device=x.device)
    scans = x.cumprod(0), x.cummax(0).values, x.cummin(0).values, x.logcumsumexp(0), x.cumsum(0)
    return scans, x.gather(0, place) + 1, x.scatter_reduce(0, place, x + 1, "sum")


@case(
    x=tensor(12, 5),
    require={"all": INDUCTOR_ONLY},
    numerics={"fill": {"output[5]": "it has no elements"}},
)
def test_parts(x):
    return (
        torch.diagonal(x, -2) + 1,
        torch.diagonal(x, 2, 1, 0) * 2,
        torch.diagonal_scatter(x, x[0, :3], -9),
        x.repeat(2, 1, 3),
        x.repeat(1, 1),
        x.repeat(2, 0, 1),
        torch.slice_scatter(x, x[:3], 0, 2, 8, 2),
    )


# An empty part of one dimension counts for nothing, whatever the other parts are.
@case(
    x=tensor(6, 5),
    config={"as_they_are": {}, "pointwise": {"force_pointwise_cat": True}},
    require={"all": INDUCTOR_ONLY},
)
def test_cat(x):
    empty = torch.empty(0, device=x.device)
    return torch.cat([x, empty, x.exp()]), torch.cat([empty, x]), torch.cat([x.sum(0), x[0] + 1]).relu()


# C++ code has no vectors of bytes for these kernels, so PyTorch's function joins the parts.
@case(
    x=tensor(6, 5, dtype="u8"), require={"all": ONE_GRAPH, "cpu": {"fallbacks.aten.cat": 2}, "gpu": {"fallbacks": []}}
)
def test_cat_of_bytes(x):
    return torch.cat([x, x + 1]), torch.cat([x[None, None] + 1, x[None, None]])


# The rows are different ones, so the code may read and write them in place.
@case(x=tensor(6, 5), require={"all": ONE_GRAPH | {"fallbacks": ["aten.randperm"]}})
def test_rows_in_any_order(x):
    rows = torch.randperm(6, device=x.device)
    y = x + 1
    y[rows] = y[rows] * 2
    return y


# One value and one mask: a selection instead of a scatter. Other masks need PyTorch's function.
@case(x=tensor(6, 5), require={"all": ONE_GRAPH | {"fallbacks": []}})
def test_put_where_true(x):
    mask = x > 0
    put = torch.ops.aten.index_put
    return put(x, [mask], x[0, 0]), put(x, [mask], x[0, 0], True), put(x, [mask[:, 0]], x[:1, 0], True)


# Scale and zero point are tensors. C++ code for AVX-512 has one function that rounds and limits.
@case(
    x=tensor(6, 5),
    scale=tensor(1, low=0.1, high=0.5),
    point=tensor(1, dtype="i64", low=-2, high=2),
    require={"all": INDUCTOR_ONLY | {"kernels": 1}},
    numerics={
        "reference": "eager",
        "reason": "the operator refuses float64, in which the reference is computed",
        "without": {"nan": "which integer a NaN becomes is not defined"},
    },
)
def test_quantized(x, scale, point):
    return quantized.quantize_per_tensor.tensor(x, scale, point, -128, 127, torch.int8)


@case(x=tensor(6, 5), y=tensor(7, 5), dynamic=True, require={"all": INDUCTOR_ONLY})
def test_sizes_as_numbers(x, y):
    total = torch.sym_sum([x.shape[0], y.shape[0], x.shape[1]])
    largest = torch.sym_max(x.shape[0], y.shape[0])
    half = torch.full((2,), x.shape[0] / 2, device=x.device)
    return x * total, x + x.stride(0), y * torch.sym_sqrt(x.shape[0]), x.new_full((largest, 2), 1.5) * x[0, 0], half


# The region is marked for a later pass. Without one, it becomes a part of the kernel.
@case(x=tensor(6, 8), y=tensor(6, 8), require={"all": INDUCTOR_ONLY | {"kernels": 1}})
def test_quantized_region(x, y):
    return InvokeQuant()(lambda x, y: (x * y + 1).relu(), x, y, scheme="nf4") * 2


@case(
    x=tensor(6, 8),
    only={"cuda torch>=2.13": "the instruction is one of NVIDIA's, and the operator exists from torch 2.13 on"},
    checks=("requirements", "code"),
    require={"all": INDUCTOR_ONLY | {"kernels": 1}},
)
def test_inline_assembly(x):
    add = _higher_order_ops.inline_asm_elementwise
    summed = add(x, x[0], asm_str="add.f32 $0, $1, $2;", constraints="=f,f,f", dtype=torch.float32)
    return summed + 1
