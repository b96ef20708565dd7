"""compile_time_tuning: the kernels of a GPU are tuned while the program is compiled, with example arguments.

The generated code has a function more: what Inductor runs at compile time. A capture without the device runs nothing.
"""
# ruff: noqa: N803 - constants are named as Triton's users name them
# For mypy, `tl` is a variable and no module:
# mypy: disable-error-code="name-defined"

import torch

from conformance import case, optional_module, tensor

triton, tl = optional_module("triton"), optional_module("triton.language")
TensorDescriptor = optional_module("triton.tools.tensor_descriptor").TensorDescriptor

ONE_CUDA = {"cuda_sm90": "the calls that tune differ little between GPUs"}
TUNED = {"tuned": {"triton.autotune_at_compile_time": True}}
INDUCTOR_ONLY = {"fallbacks": [], "graph_breaks": 0}


def sum_and_product(x):
    y = x.cos() + 1
    return (y @ x.T).relu() * y.sum()


# Kernels share examples of their arguments.
@case(
    x=tensor(6, 8),
    config=TUNED,
    only=ONE_CUDA,
    require={"all": INDUCTOR_ONLY | {"kernels": 2, "extern": ["mm"]}},
)
def test_kernels(x):
    return sum_and_product(x)


@case(
    x=tensor(6, 8),
    config={"alone": TUNED["tuned"] | {"aot_inductor.autotune_per_kernel_alloc": True}},
    only={"cuda_sm90 torch>=2.13": "the option is new in torch 2.13"},
    require={"all": INDUCTOR_ONLY | {"kernels": 2, "extern": ["mm"]}},
)
def test_each_kernel_alone(x):
    return sum_and_product(x)


# The sizes are examples as well.
@case(x=tensor(6, 8), dynamic=True, config=TUNED, only=ONE_CUDA, require={"all": INDUCTOR_ONLY | {"kernels": 2}})
def test_any_size(x):
    return x.softmax(0), x.sum()


# The kernel needs memory of its own.
@case(
    x=tensor(70_000),
    config={"tuned": TUNED["tuned"] | {"triton.cooperative_reductions": True}},
    only=ONE_CUDA,
    require={"all": INDUCTOR_ONLY | {"kernels": 1}},
)
def test_workspace(x):
    return x.sum()


@triton.autotune(configs=[triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128}, num_warps=8)], key=["n"])
@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x, y = tl.load(x_ptr + place, place < n), tl.load(y_ptr + place, place < n)
    tl.store(out_ptr + place, x + y, place < n)


# A user's kernel gets numbers, and its grid depends on the configuration.
@case(
    x=tensor(300),
    y=tensor(300),
    dynamic=True,
    config=TUNED,
    only=ONE_CUDA,
    require={"all": INDUCTOR_ONLY | {"kinds.user-defined": 1}},
)
def test_kernel_of_a_user(x, y):
    out = torch.empty_like(x)
    add_kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x + 1, y, out, x.numel())
    return out


@triton.jit
def descriptor_kernel(x_desc, out_desc, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BLOCK
    out_desc.store([row, 0], x_desc.load([row, 0]) * 2)


# A descriptor is made from the example.
@case(
    x=tensor(64, 32),
    config=TUNED,
    only=ONE_CUDA,
    require={"all": INDUCTOR_ONLY | {"kinds.user-defined": 1}},
    numerics={
        "reference": "eager",
        "reason": "Triton's launch of descriptors needs a GPU, and float64 is computed on the CPU",
    },
)
def test_descriptors(x):
    source, out = x + 1, torch.empty_like(x)
    descriptors = TensorDescriptor.from_tensor(source, [16, 32]), TensorDescriptor.from_tensor(out, [16, 32])
    descriptor_kernel[(4,)](*descriptors, BLOCK=16)
    return out
