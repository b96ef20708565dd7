"""triton_kernel: Triton kernels that a user wrote, between kernels that Inductor generates."""
# ruff: noqa: N803 - constants are named as Triton's users name them
# For mypy, `tl` is a variable and no module:
# mypy: disable-error-code="name-defined"

import torch

from conformance import case, optional_module, tensor

triton, tl = optional_module("triton"), optional_module("triton.language")
TensorDescriptor = optional_module("triton.tools.tensor_descriptor").TensorDescriptor

#: Triton can launch kernels only there.
ONLY = {"gpu": "Triton has no backend for the CPU"}
ONE_CUDA = {"cuda_sm90": "the code of a user's kernel differs little between GPUs"}
ONE_KERNEL = {"all": {"kernels": 1, "extern": [], "fallbacks": [], "graph_breaks": 0}}
TWO_KERNELS = {"all": {"kernels": 2, "extern": [], "fallbacks": [], "graph_breaks": 0}}


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x, y = tl.load(x_ptr + place, place < n), tl.load(y_ptr + place, place < n)
    tl.store(out_ptr + place, x + y, place < n)


def added(x, y):
    out = torch.empty_like(x)
    add_kernel[(triton.cdiv(x.numel(), 128),)](x, y, out, x.numel(), BLOCK=128)
    return out


@case(x=tensor(), y=tensor(), shape=[(1000,), (128,), (1,)], dtype=["f32", "bf16"], only=ONLY, require=ONE_KERNEL)
def test_add(x, y):
    return added(x, y)


# By itself Inductor fuses nothing into the user's kernel: its arguments and its result have kernels of their own.
@case(
    x=tensor(1000),
    y=tensor(1000),
    dtype=["f32", "f16"],
    only=ONLY,
    require={"all": {"kernels": 4, "extern": [], "fallbacks": [], "graph_breaks": 0}},
)
def test_between_pointwise(x, y):
    return added(x.abs() + 1, y * 2).relu() * 3


# With an option, what follows is part of the user's kernel, if it needs no other operand and sums nothing.
@case(
    x=tensor(300),
    y=tensor(300),
    form={
        "pointwise": lambda x, y: added(x, y).relu() * 3,
        "cast": lambda x, y: added(x, y).half() + 1,
        "with_operand": lambda x, y: added(x, y) * y,
        "summed": lambda x, y: added(x, y).sum(),
    },
    config={"fused": {"epilogue_fusion_user_defined_triton_kernel": True}},
    only={"cuda_sm90 torch>=2.13": "the option exists from torch 2.13 on"},
    require={
        "all": {"extern": [], "fallbacks": [], "graph_breaks": 0, "kinds.user-defined": 1, "kernels": 1},
        "with_operand": {"kernels": 2},
        "summed": {"kernels": 2},
    },
)
def test_fused(x, y, form):
    return form(x, y)


@case(x=tensor(20, 30), y=tensor(20, 30), dynamic=True, only=ONLY, require=ONE_KERNEL)
def test_add_of_any_size(x, y):
    return added(x, y)


# Inductor's kernel sums the result of the user's kernel.
@case(
    x=tensor(8, 100),
    y=tensor(8, 100),
    only=ONLY,
    require=TWO_KERNELS,
)
def test_summed(x, y):
    return added(x, y).sum(1)


@triton.jit
def axpy_kernel(x_ptr, y_ptr, factor, n, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x, y = tl.load(x_ptr + place, place < n), tl.load(y_ptr + place, place < n)
    tl.store(y_ptr + place, x * factor + y, place < n)


# The kernel writes to an argument of the function. Inductor makes no copy.
@case(x=tensor(500), y=tensor(500), only=ONLY, require=ONE_KERNEL)
def test_in_place(x, y):
    axpy_kernel[(4,)](x, y, 0.5, 500, BLOCK=128)
    return y


# The kernel overwrites a value that is needed later, so that value is copied first.
@case(x=tensor(500), only=ONLY, require={"all": {"fallbacks": [], "graph_breaks": 0}})
def test_in_place_of_a_copy(x):
    y = x.sin()
    z = y.clone()
    axpy_kernel[(4,)](x, y, 0.5, 500, BLOCK=128)
    return y * z


CONFIGS = [
    triton.Config({"BLOCK_SIZE": 64}, num_warps=2),
    triton.Config({"BLOCK_SIZE": 256}, num_warps=4, num_stages=2),
]


@triton.autotune(configs=CONFIGS, key=["n"])
@triton.jit
def square_kernel(x_ptr, out_ptr, n, BLOCK_SIZE: tl.constexpr):
    place = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    x = tl.load(x_ptr + place, place < n)
    tl.store(out_ptr + place, x * x, place < n)


@case(x=tensor(shape=[(700,), (3, 100)]), only=ONLY, require=TWO_KERNELS)
def test_autotuned(x):
    out = torch.empty_like(x)
    square_kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK_SIZE"]),)](x, out, x.numel())
    return out + 1


@triton.jit
def gelu_or_relu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr, ACTIVATION: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + place, place < n)
    y = tl.maximum(x, 0.0) if ACTIVATION == "relu" else x * tl.sigmoid(1.702 * x)
    tl.store(out_ptr + place, y, place < n)


# Another constant makes another kernel.
@case(
    x=tensor(300),
    activation={"relu": "relu", "gelu": "gelu"},
    only=ONLY,
    require=ONE_KERNEL,
    numerics={"for": {"relu": {"without": {"nan": "on a device, tl.maximum returns the number, not the NaN"}}}},
)
def test_constant(x, activation):
    out = torch.empty_like(x)
    gelu_or_relu_kernel[(3,)](x, out, 300, BLOCK=128, ACTIVATION=activation)
    return out


@case(x=tensor(300), y=tensor(300), only=ONLY, require=TWO_KERNELS)
def test_two_kernels(x, y):
    out = torch.empty_like(x)
    add_kernel[(3,)](x, y, out, 300, BLOCK=128)
    axpy_kernel[(5,)](x, out, 2.0, 300, BLOCK=64)
    return out


@triton.jit
def transpose_kernel(x_ptr, out_ptr, rows, columns, x_row, x_column, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[:, None]
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    inside = (row < rows) & (column < columns)
    x = tl.load(x_ptr + row * x_row + column * x_column, inside)
    tl.store(out_ptr + column * rows + row, x, inside)


# The kernel gets the strides, and reads the input without a copy.
@case(
    x=tensor(30, 50, layout=["contiguous", "transposed", "sliced"]),
    only=ONLY,
    require=ONE_KERNEL,
    numerics={"exact": True},
)
def test_strided(x):
    out = torch.empty((50, 30), dtype=x.dtype, device=x.device)
    transpose_kernel[(2, 4)](x, out, 30, 50, x.stride(0), x.stride(1), BLOCK=16)
    return out


@triton.jit
def largest(a, b):
    return tl.where(a > b, a, b)


@triton.jit
def row_kernel(x_ptr, sum_ptr, most_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + column, column < columns, other=0.0)
    tl.store(sum_ptr + row, tl.sum(x, 0))
    tl.store(most_ptr + row, tl.reduce(tl.abs(x), 0, largest))


# The kernel calls another Triton function, and has two results.
@case(
    x=tensor(6, 50),
    only=ONLY,
    require=ONE_KERNEL,
    numerics={
        "without": {
            "nan": "on a device, the order decides which one of NaN and a number `>` keeps",
        }
    },
)
def test_rows(x):
    total, most = x.new_empty(6), x.new_empty(6)
    row_kernel[(6,)](x, total, most, 50, BLOCK=64)
    return total, most


class Doubled(torch.autograd.Function):
    """A function whose backward is a user's kernel as well."""

    @staticmethod
    def forward(_ctx, x):
        return added(x, x)

    @staticmethod
    def backward(_ctx, gradient):
        return added(gradient, gradient)


@case(x=tensor(200), grad=True, only=ONLY, require={"all": {"fallbacks": [], "graph_breaks": 0}})
def test_gradient(x):
    return Doubled.apply(x.sin()).cos()


@triton.jit
def reverse_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    for start in range(0, n, BLOCK):
        place = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + place, place < n)
        tl.store(out_ptr + n - 1 - place, x, place < n)


# The kernel reads a copy of what it writes to. One program reads and writes all, so that each run has the same result.
@case(x=tensor(500), only=ONLY, require={"all": {"fallbacks": [], "graph_breaks": 0}}, numerics={"exact": True})
def test_reversed_into(x):
    y = x.clone()
    reverse_kernel[(1,)](y, x, 500, BLOCK=128)
    return x * 2


FACTOR = tl.constexpr(3)
BIAS = tl.constexpr(2)


@triton.jit
def scaled(x, factor):
    return x * factor


@triton.autotune(
    configs=[triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128}, num_warps=8)],
    key=["n"],
    reset_to_zero=["out_ptr"],
    restore_value=["y_ptr"],
)
@triton.jit
def accumulate_kernel(x_ptr, y_ptr, out_ptr, absent_ptr, one, n, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x, y = tl.load(x_ptr + place, place < n), tl.load(y_ptr + place, place < n)
    if absent_ptr is not None:
        x += tl.load(absent_ptr + place, place < n)
    tl.store(y_ptr + place, scaled(x, FACTOR) + y * one + BIAS, place < n)
    tl.atomic_add(out_ptr, tl.sum(x))


# The kernel calls another one, reads constants of the module, and gets a None, a 1 and a view. Its grid depends on the
# configuration, and trying one of them must not change its arguments.
@case(
    x=tensor(301),
    y=tensor(300),
    only=ONE_CUDA,
    require={"all": {"fallbacks": [], "graph_breaks": 0, "kinds.user-defined": 1}},
)
def test_with_all_arguments(x, y):
    out = torch.zeros(1, device=x.device)
    written = y + 1
    accumulate_kernel[lambda meta: (triton.cdiv(300, meta["BLOCK"]),)](x[1:], written, out, None, 1, 300)
    return written, out


@triton.jit
def descriptor_kernel(x_desc, out_desc, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BLOCK
    out_desc.store([row, 0], x_desc.load([row, 0]) * 2)


# The kernel reads and writes blocks through tensor descriptors.
@case(
    x=tensor(64, 32),
    only=ONE_CUDA,
    require={
        "all": {
            "fallbacks": [],
            "graph_breaks": 0,
            "kinds.user-defined": 1,
            "extern": ["TMADescriptorStable", "TMADescriptorStable"],
        }
    },
    numerics={
        "reference": "eager",
        "reason": "Triton's launch of descriptors needs a GPU, and float64 is computed on the CPU",
    },
)
def test_with_descriptors(x):
    source, out = x + 1, torch.empty_like(x)
    descriptors = TensorDescriptor.from_tensor(source, [16, 32]), TensorDescriptor.from_tensor(out, [16, 32])
    descriptor_kernel[(4,)](*descriptors, BLOCK=16)
    return out
