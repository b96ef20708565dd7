"""device_copies: copies between the CPU and a GPU, and tensors that are made on one and needed on the other."""

import torch

from conformance import case, tensor

ONLY = {"cuda_sm90": "copies differ little between GPUs"}
NO_FALLBACK = {"fallbacks": [], "graph_breaks": 0}

#: One kernel on the GPU makes them where they are needed.
MADE_ON_THE_CPU = {
    "range": lambda: torch.arange(8),
    "computed": lambda: torch.arange(8) % 3 * 2,
    "view": lambda: (torch.arange(16) % 3).view(8, 2).t()[1],
}


@case(
    x=tensor(5, 8),
    made=MADE_ON_THE_CPU,
    only=ONLY,
    require={"all": NO_FALLBACK | {"kernels": 1, "extern": []}},
)
def test_made_on_the_cpu(x, made):
    return x + made().to(x.device)


@case(x=tensor(5, 8), only=ONLY, require={"all": NO_FALLBACK})
def test_sum_made_on_the_cpu(x):
    return x + torch.arange(8).sum().to(x.device)


# With an asynchronous copy, memory on the CPU is pinned, and the code waits before it reads the copy. The emulation has
# nothing to wait for.
@case(
    x=tensor(5, 8), only=ONLY, checks=("requirements", "code"), require={"all": NO_FALLBACK | {"extern.DeviceCopy": 2}}
)
def test_asynchronous(x):
    copy = (x + 1).to("cpu", non_blocking=True)
    return copy, copy.sin().to(x.device, non_blocking=True) * 2


# The kernel reads the number from the GPU again.
@case(x=tensor(5, 8), only=ONLY, require={"all": NO_FALLBACK | {"extern.DeviceCopy": 2}})
def test_through_the_cpu(x):
    return x * x.sum().cpu().cos().to(x.device)


# The copy keeps the strides of its source.
@case(
    x=tensor(5, 8, layout="transposed"),
    part={"all": lambda x: x, "rows": lambda x: x[1:]},
    only=ONLY,
    require={"all": NO_FALLBACK | {"extern.DeviceCopy": 1}},
)
def test_transposed(x, part):
    return part(x.cpu())
