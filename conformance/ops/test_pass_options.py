"""pass_options: rewrites of Inductor's graphs that an option switches on.

torch/_inductor/fx_passes has a file for each option. Each rewrite is named here as the fact `patterns` does.
"""

import torch
from torch import nn

from conformance import case, tensor

ONE_CPU = {"cpu_avx512": "the passes are the same for each target of a device type"}
ONE_CUDA = {"cuda_sm90": "the passes are the same for each target of a device type"}
OVERFLOW = {"without": {"huge": "whether a sum overflows depends on its order"}}
ADDED_BY_ATOMICS = {
    "factor": 8,
    "reason": "measured 31 ulp on an H100: some hundred values are added to each element, in an order of its own",
}
ONE_KERNEL = {"kernels": 1, "fallbacks": [], "extern": [], "graph_breaks": 0}


def mul_sum(**options):
    """A product becomes a multiplication and a sum."""
    return {"pre_grad_fusion_options": {}, "post_grad_fusion_options": {"decompose_mm_pass": options}}


# A product of one row is a multiplication and a sum: a kernel, and no call of a library.
@case(
    bias=tensor(7),
    x=tensor(1, 6),
    y=tensor(6, 7),
    form={
        "mm": lambda _bias, x, y: torch.relu(x @ y),
        "addmm": torch.addmm,
        "bmm": lambda _bias, x, y: torch.bmm(x[None], y[None]),
    },
    config={"fixed": mul_sum(), "any_size": mul_sum(skip_dynamic_shape_dim_check=True)},
    only=ONE_CPU,
    require={"all": ONE_KERNEL} | {form: {f"patterns.decompose_{form}": 1} for form in ("mm", "addmm", "bmm")},
)
def test_product_of_one_row(bias, x, y, form):
    return form(bias, x, y)


# On a GPU, a product of many rows with a small matrix.
@case(
    x=tensor(10240, 2),
    y=tensor(2, 3),
    form={
        "mm": torch.mm,
        "addmm": lambda x, y: torch.addmm(y[0], x, y),
        "bmm": lambda x, y: torch.bmm(x[:, None], y.expand(10240, 2, 3)),
    },
    config={"fixed": mul_sum(), "any_size": mul_sum(skip_dynamic_shape_dim_check=True)},
    only=ONE_CUDA,
    require={"all": ONE_KERNEL} | {form: {f"patterns.decompose_{form}": 1} for form in ("mm", "addmm", "bmm")},
)
def test_product_of_many_rows(x, y, form):
    return form(x, y)


# Two rows are too many for a CPU, and too few for a GPU.
@case(
    x=tensor(2, 6),
    y=tensor(6, 7),
    form={"mm": torch.mm, "bmm": lambda x, y: torch.bmm(x[:, None], y.expand(2, 6, 7))},
    config={"any_size": mul_sum(skip_dynamic_shape_dim_check=True)},
    only=ONE_CPU | ONE_CUDA,
    require={"mm": {"patterns.decompose_mm": 0, "extern": ["mm"]}, "bmm": {"patterns.decompose_bmm": 0}},
)
def test_product_of_two_rows(x, y, form):
    return form(x, y)


B2B = {"b2b_gemm_pass": True, "max_autotune_gemm": True, "max_autotune_gemm_backends": "TRITON"}
ONE_TEMPLATE = {"all": {"kernels": 1, "kinds.template": 1, "extern": [], "patterns.b2b_gemm": 1}}


# Two products, and what is between them, are one kernel from a template.
@case(
    a=tensor(128, 16, dtype="f16"),
    b=tensor(16, 128, dtype="f16"),
    form={
        "left": lambda a, b: (a @ b) @ b.t(),
        "relu_between": lambda a, b: torch.relu((a @ b) * 2) @ b.t(),
        "right": lambda a, b: b @ (a @ b),
    },
    config={"b2b": B2B},
    only=ONE_CUDA,
    require=ONE_TEMPLATE,
)
def test_two_products(a, b, form):
    return form(a, b)


@case(
    a=tensor(128, 16),
    b=tensor(16, 128),
    config={"b2b": B2B},
    only=ONE_CUDA,
    require=ONE_TEMPLATE,
    numerics=OVERFLOW,
)
def test_two_products_of_float32(a, b):
    return (a @ b) @ b.t()


PARTS = {"partitioned_scatter_enabled": True}


def added(x, index, values):
    return x.index_put((index,), values, accumulate=True)


# Values with the same index are added in several copies of the tensor, which are summed then.
@case(
    x=tensor(8, 3),
    index=tensor(4096, dtype="i64", low=0, high=8),
    values=tensor(4096, 3),
    form={
        "rows": added,
        "columns": lambda x, index, values: x.t().contiguous().index_put((None, index), values.t(), accumulate=True),
        "matrix_of_indices": lambda x, index, values: added(x, index.view(64, 64), values.view(64, 64, 3)),
        "few": lambda x, index, values: added(x, index[:64], values[:64]),
        "two_indices": lambda x, index, values: x.index_put((index, index % 3), values[:, 0], accumulate=True),
    },
    config={"partitioned": PARTS},
    only=ONE_CUDA,
    require={
        "all": {"patterns.partitioned_scatter_applied": 1, "fallbacks": [], "graph_breaks": 0},
        "few": {"patterns.partitioned_scatter_applied": 0},
        "two_indices": {"patterns.partitioned_scatter_applied": 0},
    },
    numerics=OVERFLOW | {"for": {"two_indices cuda": ADDED_BY_ATOMICS}},
)
def test_index_put(x, index, values, form):
    return form(x, index, values)


# The sum of integers has the type of the values.
@case(
    x=tensor(8, 3, dtype="i32"),
    index=tensor(4096, dtype="i64", low=0, high=8),
    values=tensor(4096, 3, dtype="i32"),
    config={"partitioned": PARTS},
    only=ONE_CUDA,
    require={"all": {"patterns.partitioned_scatter_applied": 1, "fallbacks": [], "graph_breaks": 0}},
    numerics={"exact": True},
)
def test_index_put_of_integers(x, index, values):
    return added(x, index, values)


def drawn(layer):
    """The layer in evaluation; its weights and statistics are the same in each process."""
    draws = torch.Generator().manual_seed(0)
    for name, value in layer.state_dict().items():
        if value.is_floating_point():
            low = 0.5 if name.endswith("running_var") else -0.5
            value.copy_(torch.rand(value.shape, generator=draws) + low)
    return layer.eval()


NORM = drawn(nn.BatchNorm2d(6))
PLAIN_NORM = drawn(nn.BatchNorm2d(6, affine=False))
NORM_1D = drawn(nn.BatchNorm1d(6))
CONV = drawn(nn.Conv2d(3, 6, 3))
CONV_WITHOUT_BIAS = drawn(nn.Conv2d(3, 6, 3, bias=False))
TRANSPOSED_CONV = drawn(nn.ConvTranspose2d(3, 6, 3))
LINEAR = drawn(nn.Linear(5, 6))


def in_aten(x):
    y = torch.ops.aten.conv2d.default(x, CONV.weight)
    statistics = (NORM.running_mean, NORM.running_var)
    return torch.ops.aten.batch_norm.default(y, NORM.weight, NORM.bias, *statistics, False, 0.1, 1e-5, False)


# A batch norm in evaluation goes into the weight of the layer before it, which needs its gradients.
@case(
    x=tensor(2, 3, 6, 5),
    form={
        "conv": lambda x: NORM(CONV(x)),
        "without_bias": lambda x: PLAIN_NORM(CONV_WITHOUT_BIAS(x)),
        "transposed": lambda x: NORM(TRANSPOSED_CONV(x)),
        "linear": lambda x: NORM_1D(LINEAR(x[0, 0])),
        "aten": in_aten,
    },
    config={"folded": {"efficient_conv_bn_eval_fx_passes": True}},
    only=ONE_CPU,
    require={
        "all": {"patterns.efficient_conv_bn_eval": 1, "extern": ["convolution"], "graph_breaks": 0},
        "linear": {"extern": ["addmm", "mm"]},
    },
    numerics={
        "reference": "eager",
        "reason": "the modules stay in float32",
        "without": dict.fromkeys(("negative", "positive", "far"), "the sums cancel, and the folded weight is rounded"),
    },
)
def test_batch_norm(x, form):
    return form(x)
