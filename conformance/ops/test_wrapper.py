"""wrapper: the code that calls kernels, with checks, measurements and prints."""

import torch
from torch._higher_order_ops import while_loop

from conformance import case, tensor

INDUCTOR_ONLY = {"fallbacks": [], "graph_breaks": 0}
_ONE_OF_EACH = "a wrapper differs little between targets of one device type"
ONE_OF_EACH = {"cpu_avx2": _ONE_OF_EACH, "cuda_sm90": _ONE_OF_EACH}
ONE_CUDA = {"cuda_sm90": _ONE_OF_EACH}


RAISES = "with nan_asserts, the program raises where a value is NaN or infinite"
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
    require={
        "all": INDUCTOR_ONLY | {"kernels": 2, "extern": ["mm", "mm"]},
        "own_memory": {"buffers.reused": 0, "buffers.in_place": 0},
    },
    numerics={"for": {"nan": {"without": dict.fromkeys(("nan", "inf", "huge"), RAISES)}}},
)
def test_option(x):
    product = torch.relu(x @ x.T) + 1
    return torch.cos(product @ x)


#: Triton's profiler starts before the kernels are compiled, and ends with the program. NVIDIA's profiler gets a range
#: with a name, the program.
PROFILERS = {
    "proton": {"triton.proton_profiling": True, "triton.proton_output_dir": "proton"},
    "nvtx": {"annotate_training": True},
}


# The emulation has no profiler.
@case(
    x=tensor(6, 8),
    config=PROFILERS,
    only=ONE_CUDA,
    checks=("requirements", "code"),
    require={"all": INDUCTOR_ONLY | {"kernels": 1}},
)
def test_profiler(x):
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


# The program needs a number before it can call the next kernel. The number of a boolean is 0 or 1.
@case(
    x=tensor(8),
    config={"numbers": {"dynamo.capture_scalar_outputs": True}},
    only=ONE_OF_EACH,
    require={"all": INDUCTOR_ONLY | {"kernels": 2, "extern.DynamicScalar": 1}},
)
def test_boolean_number(x):
    positive = (x.sum() > 0).item()
    return torch.where(x > 1, positive, x), x + positive


@torch.library.custom_op("conformance_wrapper::made", mutates_args=(), schema="(int size, Device device) -> Tensor[]")
def made(size, device):
    return [torch.ones(size, device=device), torch.full((size,), 2.0, device=device)]


made.register_fake(lambda size, device: [torch.empty(size, device=device), torch.empty(size, device=device)])


# The operator reads no tensor, so its results alone tell its device.
@case(
    x=tensor(8),
    only=ONE_OF_EACH,
    require={"all": {"graph_breaks": 0, "kernels": 1, "fallbacks": ["conformance_wrapper.made"]}},
)
def test_operator_without_tensors(x):
    ones, twos = made(8, x.device)
    return x + ones, x * twos


# An option for PyTorch's own tests: the code checks which tensors live after each kernel. The check fails where memory
# is used again.
@case(
    x=tensor(6, 8),
    config={
        "tracked": {
            "allow_buffer_reuse": False,
            "inplace_buffers": False,
            "test_configs.track_memory_lifecycle": "assert",
        }
    },
    only=ONE_OF_EACH,
    require={"all": {"graph_breaks": 0, "extern.mm": 2, "fallbacks._inductor_debug.check_memory_step": 3}},
)
def test_tracked_memory(x):
    return ((x @ x.T).relu() + 1) @ x
