"""cpp_wrapper: the calls of kernels, library functions and fallbacks are a C++ function instead of a Python one.

A C++ compiler needs about 15 seconds for such a function, so one case alone compares values.
"""

import torch
from torch import Tensor, _check
from torch._higher_order_ops import while_loop

from conformance import case, tensor

#: Wrappers differ little between targets of one device type. Before torch 2.13, the kernels of a GPU are compiled
#: first, which needs the device.
_ONE_OF_EACH = "a wrapper differs little between targets of one device type"
CODE = {
    "only": {"cpu_avx2": _ONE_OF_EACH, "cuda_sm90 torch>=2.13": _ONE_OF_EACH},
    "checks": ("requirements", "code"),
}
CPP = {"cpp": {"cpp_wrapper": True}}
NUMBERS = {"cpp": CPP["cpp"] | {"dynamo.capture_scalar_outputs": True, "dynamo.capture_dynamic_output_shape_ops": True}}


# Kernels, products, views of results and inputs, a fallback, and memory that is used again.
@case(
    x=tensor(6, 8),
    w=tensor(8, 8),
    config=CPP,
    only={"cpu_avx2": "C++ compiled for each target would take too long"},
    require={"all": {"graph_breaks": 0, "extern": ["mm", "mm"], "fallbacks": ["aten.sort"], "kernels": 2}},
)
def test_values(x, w):
    product = torch.relu(x @ w)
    values, places = product.sort(-1)
    return values[1:].T, places, x.view(8, 6), (values @ w).cos().sum(0), 3


# Functions with a stable C interface.
@case(
    x=tensor(6, 8),
    config=CPP,
    require={
        "all": {
            "graph_breaks": 0,
            "extern": ["aten.randint", "addmm"],
            **{f"fallbacks.aten.{name}": 1 for name in ("histc", "topk", "_cdist_forward", "_fft_r2c")},
        },
        "cpu": {"fallbacks.aten.cummax": 1},
    },
    **CODE,
)
def test_functions_of_the_c_interface(x):
    places = torch.randint(0, 6, (4,), device=x.device)
    return (
        x.cummax(1),
        torch.ops.aten.histc(x, 5),
        x.topk(2, -1),
        torch.fft.fft(x, dim=1),
        torch.cdist(x, x),
        x.index_add(0, places, x[:4]),
        torch.nn.functional.pad(x[None], (7, 7), mode="reflect"),
        torch.addmm(x, x, torch.ones(8, 8, device=x.device), alpha=0.5),
    )


# Functions that the code looks up by their names when it runs.
@case(
    x=tensor(6, 6),
    config=NUMBERS,
    require={
        "all": {
            "graph_breaks": 0,
            "fallbacks.aten._linalg_svd": 1,
            "fallbacks.aten.unique_dim": 1,
            "fallbacks.aten.bincount": 1,
            "fallbacks.aten.linalg_matrix_exp": 1,
        }
    },
    **CODE,
)
def test_functions_by_name(x):
    return (
        torch.linalg.svd(x, full_matrices=False),
        torch.ops.aten.unique_dim(x, 0),
        torch.linalg.matrix_exp(x),
        torch.bincount(x[0].abs().long()),
    )


#: One argument of each kind.
ARGUMENTS = (
    "(Tensor x, Tensor[] parts, Tensor? other, SymInt[] sizes, float[] weights, float factor, Scalar bias, str mode, "
    "*, bool flag=False, ScalarType? dtype=None, Device? device=None)"
)


def custom_op(name, function, result):
    """An operator of this file with all these arguments."""
    return torch.library.custom_op(
        f"conformance_cpp_wrapper::{name}", function, mutates_args=(), schema=f"{ARGUMENTS} -> {result}"
    )


one = custom_op("one", lambda x, *_, **__: x.clone(), "Tensor")
several = custom_op("several", lambda x, *_, **__: [x.clone(), x + 1], "Tensor[]")


@torch.library.custom_op("conformance_cpp_wrapper::written", mutates_args=("x",))
def written(x: Tensor, factor: float, count: int | None) -> None:
    x.mul_(factor)


one.register_fake(lambda x, *_, **__: torch.empty_like(x))
several.register_fake(lambda x, *_, **__: [torch.empty_like(x), torch.empty_like(x)])
written.register_fake(lambda *_: None)


# The code calls a function that returns a list through Python, and others through PyTorch's dispatcher.
@case(
    x=tensor(6, 6),
    function={"one": one, "several": several},
    config=CPP,
    require={
        "all": {"graph_breaks": 0},
        "one": {"fallbacks.conformance_cpp_wrapper.one": 1},
        "several": {"fallbacks.conformance_cpp_wrapper.several": 1},
    },
    **CODE,
)
def test_kinds_of_arguments(x, function):
    return function(
        x + 1,
        [x[:2], x.T],
        None,
        [1, x.shape[0]],
        [0.5, float("inf")],
        float("-inf"),
        2.5,
        "mean",
        flag=True,
        dtype=torch.float64,
        device=x.device,
    )


@case(
    x=tensor(6, 6),
    config=CPP,
    require={"all": {"graph_breaks": 0, "fallbacks.conformance_cpp_wrapper.written": 1}},
    **CODE,
)
def test_function_that_writes(x):
    y = x + 1
    written(y, 0.5, None)
    return y * 2


@case(
    x=tensor(6, 8),
    places=tensor(5, dtype="i64", low=0, high=5),
    config=CPP,
    require={
        "all": {"graph_breaks": 0, "fallbacks.aten.scatter_reduce_": 1},
        "gpu": {"fallbacks.aten.index_put_": 1},
        "cpu torch<2.15": {"fallbacks.aten.index_put_": 1},
    },
    **CODE,
)
def test_scattered(x, places):
    added = x.long().index_put((places,), x[:5].long(), accumulate=True)
    reduced = torch.scatter_reduce(x, 0, places[:, None].expand(5, 8), x[:5], "prod", include_self=False)
    chosen = x.masked_scatter(x > 0, x)
    return added, reduced, chosen


@case(
    x=tensor(6, 8),
    flag=tensor(shape={"one": ()}, dtype="bool"),
    config=CPP,
    require={
        "all": {"graph_breaks": 0, "extern.WhileLoop": 1, "fallbacks": []},
        "torch<2.15": {"extern.Conditional": 1},
        "torch>=2.15": {"extern.Switch": 1},
    },
    **CODE,
)
def test_branches_and_loops(x, flag):
    branch = torch.cond(flag, lambda x: (x.exp().sum(0), x + 1), lambda x: (x.cos()[0], x - 1), (x,))
    count = torch.zeros((), dtype=torch.int64, device=x.device)
    return branch, while_loop(lambda n, _: n < 3, lambda n, x: (n + 1, x * 0.5 + 1), (count, x))


@case(
    x=tensor(6, 8),
    y=tensor(6, 8),
    dynamic=True,
    config=CPP,
    require={"all": {"graph_breaks": 0, "fallbacks": [], "extern": ["mm"]}},
    **CODE,
)
def test_any_size(x, y):
    return torch.cat([x, y]).softmax(0), (x @ y.T).sum(), x.shape[0] * 2, x.new_zeros(x.shape[0], 3)


@case(
    x=tensor(6, 8),
    numbers=tensor(2, dtype="i64", low=2, high=5),
    config=NUMBERS,
    require={
        "all": {
            "graph_breaks": 0,
            "extern.DynamicScalar": 2,
            "extern.DynamicSliceSize": 1,
            "extern.DynamicSelectStorageOffset": 1,
            "fallbacks": ["aten.index"],
        }
    },
    **CODE,
)
def test_numbers_of_tensors(x, numbers):
    number, place = numbers[0].item(), numbers[1].item()
    _check(number >= 2)
    _check(number < 6)
    chosen = x[x[:, 0] > 0]
    return (
        x[place] + 1,
        x[:place],
        torch.full((number, 4), 2.5, device=x.device),
        chosen @ x.T,
        torch.where(x > number, x, place),
    )


@case(
    x=tensor(6, 8),
    config={"planned": {"cpp_wrapper": True, "memory_planning": True}},
    require={"all": {"graph_breaks": 0, "buffers.pools": 3, "extern": ["mm", "mm", "mm"]}},
    **CODE,
)
def test_pools_of_memory(x):
    first = torch.relu(x @ x.T)
    return torch.cos(first @ x), (first @ first).sum(0)


@case(
    x=tensor(6, 8),
    config={"checked": {"cpp_wrapper": True, "nan_asserts": True, "profiler_mark_wrapper_call": True}},
    require={"all": {"graph_breaks": 0, "fallbacks": [], "extern": ["mm"], "kernels": 1}},
    **CODE,
)
def test_checks(x):
    return torch.relu(x) @ x.T


@case(
    x=tensor(6, 8),
    config=CPP,
    dtype=["f16", "c64"],
    require={
        "all": {"graph_breaks": 0},
        "f16": {"fallbacks": []},
        "gpu f16": {"extern.DeviceCopy": 1},
        "c64": {"fallbacks.aten.mul": ">=1"},
    },
    **CODE,
)
def test_dtypes(x):
    constant = torch.tensor([1.0, 2.0, 3.0], device=x.device)
    return (
        x * 2,
        constant.sum() * x,
        x.sum(),
        x.to(torch.float64 if x.dtype == torch.float16 else torch.complex128),
        x.cpu() + 1,
    )
