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
    numerics={"for": {"nan": {"without": dict.fromkeys(("nan", "inf", "huge", "full_range"), RAISES)}}},
)
def test_option(x):
    product = torch.relu(x @ x.T) + 1
    return torch.cos(product @ x)


# Triton's profiler starts before the kernels are compiled, and ends with the program. The emulation has no profiler.
@case(
    x=tensor(6, 8),
    config={"profiled": {"triton.proton_profiling": True, "triton.proton_output_dir": "proton"}},
    only=ONE_CUDA,
    checks=("requirements", "code"),
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
