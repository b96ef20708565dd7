"""wrapper: the code that calls kernels, with checks, measurements and prints, and with all kinds of arguments."""
# ruff: noqa: N803 - constants are named as Triton's users name them

import torch
import triton
import triton.language as tl
from torch._higher_order_ops import while_loop
from triton.tools.tensor_descriptor import TensorDescriptor

from conformance import case, tensor

INDUCTOR_ONLY = {"fallbacks": [], "graph_breaks": 0}
_ONE_OF_EACH = "a wrapper differs little between targets of one device type"
ONE_OF_EACH = {"cpu_avx2": _ONE_OF_EACH, "cuda_sm90": _ONE_OF_EACH}
ONE_CUDA = {"cuda_sm90": "the code of a user's kernel differs little between GPUs"}
CODE = ("requirements", "code")


OPTIONS = {
    "nan": {"nan_asserts": True},
    "unchecked": {"size_asserts": False, "alignment_asserts": False},
    "marked": {"profiler_mark_wrapper_call": True},
    "bandwidth": {"profile_bandwidth": True},
    "synchronised": {"triton.debug_sync_graph": True, "triton.debug_sync_kernel": True},
    "printed": {"aot_inductor.debug_intermediate_value_printer": "2"},
    "own_memory": {"allow_buffer_reuse": False, "inplace_buffers": False},
}


# Each option is for developers of a model. It leaves the kernels as they are, and changes the code that calls them.
@case(
    x=tensor(6, 8),
    config=OPTIONS,
    only=ONE_OF_EACH,
    checks=CODE,
    require={
        "all": INDUCTOR_ONLY | {"kernels": 2, "extern": ["mm", "mm"]},
        "own_memory": {"buffers.reused": 0, "buffers.in_place": 0},
    },
)
def test_option(x):
    product = torch.relu(x @ x.T) + 1
    return torch.cos(product @ x)


# Triton's profiler starts before the kernels are compiled, and ends with the program.
@case(
    x=tensor(6, 8),
    config={"profiled": {"triton.proton_profiling": True, "triton.proton_output_dir": "proton"}},
    only=ONE_CUDA,
    checks=CODE,
    require={"all": INDUCTOR_ONLY | {"kernels": 1}},
)
def test_proton(x):
    return torch.cos(x) + 1


# The backward needs the values of each round, so the loop stacks them.
@case(
    x=tensor(4, 16),
    grad=True,
    config={"numbers": {"dynamo.capture_scalar_outputs": True}},
    only=ONE_OF_EACH,
    require={"all": {"graph_breaks": 0, "extern.WhileLoop": 2}},
)
def test_gradients_of_a_loop(x):
    count = torch.zeros((), dtype=torch.int64, device=x.device)
    return while_loop(lambda n, _: n < 3, lambda n, x: (n + 1, x.sin() + x), (count, x))[1]


FACTOR = tl.constexpr(3)
BIAS: tl.constexpr = 2


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
    x=tensor(301), y=tensor(300), only=ONE_CUDA, checks=CODE, require={"all": INDUCTOR_ONLY | {"kinds.user-defined": 1}}
)
def test_kernel_with_all_arguments(x, y):
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
    checks=CODE,
    require={
        "all": INDUCTOR_ONLY | {"kinds.user-defined": 1, "extern": ["TMADescriptorStable", "TMADescriptorStable"]}
    },
)
def test_kernel_with_descriptors(x):
    source, out = x + 1, torch.empty_like(x)
    descriptors = TensorDescriptor.from_tensor(source, [16, 32]), TensorDescriptor.from_tensor(out, [16, 32])
    descriptor_kernel[(4,)](*descriptors, BLOCK=16)
    return out
