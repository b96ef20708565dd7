"""templates: products and convolutions as kernels from Inductor's Triton templates, with what is before and after them.

With max_autotune, Inductor times the library and each configuration of a template. These cases name Triton as the only
backend, and the suite takes the first configuration without timing.
"""

import torch

from conformance import case, tensor

_TRITON = "the templates are Triton's, and one target of each device type is enough"
ONLY = {"cuda_sm90": _TRITON, "xpu_pvc": _TRITON}
ONE_CUDA = {"cuda_sm90": "GPUs of NVIDIA alone have the unit for descriptors, from compute capability 9.0 on"}

TEMPLATE = {"max_autotune_gemm": True, "max_autotune_gemm_backends": "TRITON"}
CONVOLUTION = {"max_autotune_gemm": True, "max_autotune_conv_backends": "TRITON"}
GRADIENTS = {
    "max_autotune_conv_bwd_input_backends": "TRITON",
    "max_autotune_conv_bwd_weight_backends": "TRITON",
}
DESCRIPTORS = {
    "triton.enable_persistent_tma_matmul": True,
    "test_configs.autotune_choice_name_regex": "tma",
}

INDUCTOR_ONLY = {"extern": [], "fallbacks": [], "graph_breaks": 0}
ALL_FUSED = INDUCTOR_ONLY | {"kernels": 1, "kinds.template": 1}
ORDER = "the template adds in another order than the library, and the order decides whether a sum overflows"
PADDING = "a template multiplies the zeros around the matrix, which the library leaves out, with NaN and infinity"
SUMS = {"without": {"full_range": ORDER}}

MATRICES = {"a": tensor(32, 48), "b": tensor(48, 64)}


# A template computes what comes before and after the product, but no reduction.
@case(
    **MATRICES,
    form={
        "before": lambda a, b: (a + 1) @ (b * 2),
        "cast_before": lambda a, b: a.half().float() @ b,
        "after": lambda a, b: torch.relu(a @ b) * 2,
        "between": lambda a, b: (a @ b).sin() @ b.t(),
        "reduction_after": lambda a, b: (a @ b).sum(1),
    },
    config={"template": TEMPLATE},
    only=ONLY,
    require={
        "all": ALL_FUSED,
        "between": {"kernels": 2, "kinds.template": 2},
        "reduction_after": {"kernels": 2},
    },
    numerics={"without": {"huge": ORDER, "full_range": ORDER}},
)
def test_mm(a, b, form):
    return form(a, b)


@case(
    **MATRICES,
    dynamic=True,
    config={"template": TEMPLATE},
    only=ONLY,
    require={"all": ALL_FUSED},
    numerics=SUMS,
)
def test_any_size(a, b):
    return (a @ b).relu()


# The source of the kernel has a part that measures it when the file is run.
@case(
    **MATRICES,
    config={"measured": TEMPLATE | {"benchmark_kernel": True}},
    only=ONLY,
    require={"all": ALL_FUSED},
    numerics=SUMS,
)
def test_benchmark(a, b):
    return a @ b


# The template adds its product to memory. Another kernel writes the zeros.
@case(
    **MATRICES,
    config={"atomic": TEMPLATE | {"epilogue_fusion_with_atomic_add": True}},
    only={f"{target} torch>=2.13": "the option exists from torch 2.13 on" for target in ONLY},
    require={"all": INDUCTOR_ONLY | {"kernels": 2, "kinds.template": 1}},
    numerics=SUMS,
)
def test_atomic(a, b):
    return torch.zeros_like(b).index_add(0, torch.arange(32, device=a.device) % 5, a @ b)


@case(
    bias=tensor(shape={"row": (64,), "matrix": (32, 64)}),
    **MATRICES,
    config={"template": TEMPLATE},
    only=ONLY,
    require={"all": ALL_FUSED},
    numerics=SUMS,
)
def test_addmm(bias, a, b):
    return torch.addmm(bias, a, b, alpha=2, beta=3)


# With beta=0, the input is ignored: its NaN and infinities are not in the result.
@case(
    bias=tensor(64),
    **MATRICES,
    config={"template": TEMPLATE},
    only=ONLY,
    require={"all": ALL_FUSED},
    numerics=SUMS,
)
def test_addmm_without_input(bias, a, b):
    return torch.addmm(bias, a, b, beta=0)


# The library adds a bias that is repeated in each row by itself.
@case(
    bias=tensor(64),
    **MATRICES,
    config={
        "library": TEMPLATE
        | {"max_autotune_gemm_backends": "ATEN", "test_configs.autotune_choice_name_regex": "bias_addmm"}
    },
    only=ONE_CUDA,
    require={"all": {"kernels": 0, "extern": ["bias_addmm"], "fallbacks": [], "graph_breaks": 0}},
)
def test_bias_of_library(bias, a, b):
    return torch.addmm(bias.expand(32, 64), a, b)


@case(
    c=tensor(3, 32, 64),
    a=tensor(3, 32, 48),
    b=tensor(3, 48, 64),
    form={"bmm": lambda _c, a, b: torch.bmm(a, b).relu(), "baddbmm": torch.baddbmm},
    config={"template": TEMPLATE},
    only=ONLY,
    require={"all": ALL_FUSED},
    numerics=SUMS,
)
def test_bmm(c, a, b, form):
    return form(c, a, b)


# One template has both products if their shapes are equal.
@case(
    **MATRICES,
    c=tensor(shape={"equal": (32, 48), "shorter": (32, 16)}),
    config={"template": TEMPLATE},
    only=ONLY,
    require={
        "all": INDUCTOR_ONLY | {"patterns.post_grad.mm_plus_mm": 1},
        "equal": {"kernels": 1, "kinds.template": 1},
        "shorter": {"kernels": 2, "kinds.template": 2},
    },
    numerics=SUMS,
)
def test_mm_plus_mm(a, b, c):
    return a @ b + c @ b[: c.shape[1]]


# A product of few rows and columns is the sum of several products: a bmm, and a kernel that adds.
@case(
    a=tensor(16, 512),
    b=tensor(512, 16),
    config={"template": TEMPLATE},
    only=ONLY,
    require={"all": {"kernels": 2, "extern": ["bmm_dtype", "SubgraphBuffer"], "fallbacks": [], "graph_breaks": 0}},
    numerics=SUMS,
)
def test_long_sums(a, b):
    return (a @ b).relu()


# Each program computes several tiles, which it loads with descriptors.
@case(
    bias=tensor(64),
    a=tensor(64, 64),
    b=tensor(64, 64),
    dtype="f16",
    form={"mm": lambda _bias, a, b: (a @ b).relu(), "addmm": torch.addmm},
    config={"descriptors": TEMPLATE | DESCRIPTORS},
    only=ONE_CUDA,
    require={"all": ALL_FUSED},
)
def test_persistent(bias, a, b, form):
    return form(bias, a, b)


@case(
    a=tensor(32, 64, dtype="i8"),
    b=tensor(64, 32, dtype="i8"),
    config={"template": TEMPLATE},
    only=ONLY,
    require={"all": ALL_FUSED},
)
def test_int8(a, b):
    return torch._int_mm(a, b)  # noqa: SLF001 - it has no public name


# Inductor makes both arguments channels-last first.
@case(
    x=tensor(2, 16, 8, 8),
    w=tensor(16, 16, 3, 3),
    form={
        "conv2d": lambda x, w: torch.conv2d(x, w, stride=2, padding=1).relu(),
        "1x1": lambda x, w: torch.conv2d(x, w[:, :, :1, :1]),
        "conv3d": lambda x, w: torch.conv3d(x[:, :, None], w[:, :, None]),
    },
    config={"template": CONVOLUTION},
    only=ONLY,
    require={"all": INDUCTOR_ONLY | {"kinds.template": 1}},
    numerics=SUMS | {"for": {"conv2d": {"without": SUMS["without"] | {"inf": PADDING}}}},
)
def test_conv(x, w, form):
    return form(x, w)


# A GPU of Intel has a template for a convolution of images instead.
@case(
    x=tensor(2, 16, 8),
    w=tensor(16, 1, 3),
    config={"template": CONVOLUTION},
    only={"cuda_sm90 torch>=2.13": "the template exists from torch 2.13 on", "xpu_pvc": _TRITON},
    require={"all": INDUCTOR_ONLY | {"kinds.template": 1}},
)
def test_depthwise(x, w):
    return torch.conv1d(x, w, groups=16)


# From torch 2.15 on, the library computes the gradients.
@case(
    x=tensor(2, 16, 8, 8),
    w=tensor(16, 16, 3, 3),
    b=tensor(16),
    dtype="f16",
    grad=True,
    config={"template": CONVOLUTION | GRADIENTS},
    only={"cuda_sm90 torch>=2.13": "templates of gradients exist from torch 2.13 on, and are the same for each GPU"},
    require={
        "torch<2.15": INDUCTOR_ONLY | {"kinds.template": 3},
        "torch>=2.15": {"kinds.template": 1, "fallbacks": ["aten.convolution_backward"]},
    },
    numerics={"without": {"huge": ORDER, "nan": PADDING, "inf": PADDING}},
)
def test_conv_backward(x, w, b):
    return torch.conv2d(x, w, b)
