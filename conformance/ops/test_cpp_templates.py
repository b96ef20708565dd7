"""cpp_templates: products as kernels from Inductor's C++ template, which has a kernel for each instruction set.

On AMX, tiles multiply bfloat16 and integers; the rest has the kernels of AVX-512. No case packs weights with oneDNN,
which asks the processor of this machine.
"""

import torch
from torch import nn

from conformance import case, tensor

X86 = "the kernels differ by the instruction set, and those of Arm are the ones without vectors of bfloat16"
ONLY = {"cpu_avx2": X86, "cpu_avx512": X86}
TEMPLATE = {"max_autotune": True, "max_autotune_gemm_backends": "CPP"}
ONE_KERNEL = {"kernels": 1, "kinds.template": 1, "extern": [], "fallbacks": [], "graph_breaks": 0}
ORDER = "the template adds in another order than the library, and the order decides whether a sum overflows"
AMX = "patterns.cpp_micro_gemm_amx_counter"


class Weight(nn.Module):
    """Inductor freezes the buffers of modules that are the same in each call. So these are no inputs of the cases."""

    def __init__(self):
        super().__init__()
        draws = torch.Generator().manual_seed(0)
        self.register_buffer("integers", torch.randint(-50, 50, (64, 96), dtype=torch.int8, generator=draws))
        self.register_buffer("scale", torch.full((64,), 2.0**-6).bfloat16())


WEIGHT = Weight()


@case(
    a=tensor(3, 40, 96),
    b=tensor(3, 96, 64),
    dtype=["f32", "bf16", "f16"],
    config={"template": TEMPLATE},
    only=ONLY,
    require={"all": ONE_KERNEL, "cpu_amx bf16": {AMX: ">=1"}},
)
def test_bmm(a, b):
    return torch.relu(a @ b)


# The kernel converts the integers to bfloat16.
@case(
    x=tensor(40, 96, dtype="bf16"),
    mode="no_grad",
    config={"frozen": TEMPLATE | {"freezing": True}},
    only=ONLY,
    require={"all": ONE_KERNEL, "cpu_amx": {AMX: ">=1"}},
    numerics={"without": {"full_range": f"{ORDER}; this differs between seeds"}},
)
def test_integer_weight(x):
    return (x @ WEIGHT.integers.t().to(x.dtype)) * WEIGHT.scale
