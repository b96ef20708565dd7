"""kernel_options: options of Inductor that give another Triton kernel for the same program."""

import torch

from conformance import case, tensor

INDUCTOR_ONLY = {"extern": [], "fallbacks": [], "graph_breaks": 0}
_TRITON = "the options are Triton's, and one target of each device type is enough"
ONLY = {"cuda_sm90": _TRITON, "xpu_pvc": _TRITON}
ONE_CUDA = {"cuda_sm90": "GPUs of NVIDIA alone have it, from compute capability 9.0 on"}


# The source of each kernel has a part that measures the kernel when the file is run.
@case(
    x=tensor(24, 33),
    config={"measured": {"benchmark_kernel": True}},
    only=ONLY,
    require={"all": INDUCTOR_ONLY | {"kernels": 1}},
)
def test_benchmark(x):
    return x.softmax(-1) * 2


# Products are kernels of Inductor like any other, and what follows is part of them.
@case(
    a=tensor(3, 32, 64, dtype="f16"),
    b=tensor(3, 64, 48, dtype="f16"),
    product={
        "mm": lambda a, b: torch.relu(a[0] @ b[0]),
        "bmm": lambda a, b: torch.bmm(a, b) + 1,
        "addmm": lambda a, b: torch.addmm(b[0, 0], a[0], b[0]),
        "cast": lambda a, b: a[0].float() @ b[0].float(),
        "transposed": lambda a, b: (b[0].t() @ a[0].t()).sin(),
    },
    config={"native": {"triton.native_matmul": True}},
    only=ONLY,
    require={"all": INDUCTOR_ONLY | {"kernels": 1}},
)
def test_native_matmul(a, b, product):
    return product(a, b)


# A kernel begins before the one before it has ended, and waits where it reads what that one wrote.
@case(
    x=tensor(40, 3000),
    form={
        "two_kernels": lambda x: x.amax(0).softmax(0),
        "loop": lambda x: x.softmax(1),
        "atomic": lambda x: x.index_add(0, torch.arange(5, device=x.device) % 3, x[:5].cos()),
    },
    config={"overlapped": {"triton.enable_pdl": True}},
    only=ONE_CUDA,
    require={"all": INDUCTOR_ONLY},
)
def test_programmatic_launch(x, form):
    return form(x)


COMBO = {"combo_kernels": True}
INDEPENDENT = {
    "pointwise": lambda x, y: (x.sin(), y.cos(), (y[:7] + 1).exp()),
    "reductions": lambda x, y: (x.sum(0), x.amax(1), y.mean(0)),
    "mixed": lambda x, y: (x.sum(1), y * 2, x.t().contiguous()),
}


# Kernels that need nothing of each other are parts of one.
@case(
    x=tensor(64, 96),
    y=tensor(300),
    form=INDEPENDENT,
    config={
        "combo": COMBO,
        "blocks": COMBO | {"combo_kernel_per_subkernel_blocks": True},
        "pointwise_only": COMBO | {"combo_kernels_pointwise_only": True},
        "not_tuned": COMBO | {"combo_kernels_autotune": 0, "combo_kernel_allow_mixed_sizes": 2},
    },
    vary="one_at_a_time",
    also=[{"form": "mixed", "config": "blocks"}, {"form": "mixed", "config": "not_tuned"}],
    only=ONLY,
    require={"all": INDUCTOR_ONLY, "pointwise": {"kernels": 1}, "reductions": {"kernels": 1}, "mixed": {"kernels": 2}},
)
def test_combo(x, y, form):
    return form(x, y)


# Each part has the sizes of blocks that it would have alone. A part for which Inductor would time several sizes, as the
# largest element of each row, is a kernel of its own.
@case(
    x=tensor(64, 96),
    y=tensor(300),
    form=INDEPENDENT,
    config={"untimed": COMBO | {"combo_kernel_per_subkernel_blocks": True, "combo_kernels_autotune": 0}},
    only={"cuda_sm90 torch>=2.13": "combined kernels do so from torch 2.13 on"},
    require={"all": INDUCTOR_ONLY | {"kernels": 2}, "pointwise": {"kernels": 1}},
)
def test_combo_untimed(x, y, form):
    return form(x, y)


# With this option, Inductor prints a warning about a kernel whose inputs have different layouts. The kernel stays as it
# is.
@case(
    x=tensor(2, 8, 6, 6, layout="channels_last"),
    y=tensor(2, 8, 6, 6),
    config={"warned": {"warn_mix_layout": True}},
    only=ONLY,
    require={"all": INDUCTOR_ONLY | {"kernels": 1}},
)
def test_mixed_layouts(x, y):
    return x + y
