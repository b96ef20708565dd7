"""cuda_graph_parts: with CUDA graphs, Inductor splits a program. Each part that a graph can record is a function.

A capture records no graph: the generated code calls the functions.
"""

import torch

from conformance import case, tensor

ONE_CUDA = {"cuda_sm90": "how a program is split does not depend on the GPU"}
GRAPHS = {"triton.cudagraphs": True}
SPLIT = {"graphs": GRAPHS}
NO_FALLBACK = {"fallbacks": [], "graph_breaks": 0}
TWO_COPIES = NO_FALLBACK | {"extern.DeviceCopy": 2}


# The code on the CPU is between two parts. With dynamic shapes, the parts get the sizes too.
@case(
    x=tensor(8, 16),
    dynamic=[False, True],
    config=SPLIT,
    only=ONE_CUDA,
    require={"all": TWO_COPIES | {"kernels": 3, "extern.mm": 2, "cuda_graphs": 2, "cuda_graphs.launches": 4}},
)
def test_cpu_between(x):
    product = torch.relu(x @ x.T)
    scale = product.sum(0).cpu().cos()
    return product.sin(), scale, (product * scale.to(x.device)) @ x


# Inductor moves what is on the CPU together, so that there is one part.
@case(x=tensor(8, 16), y=tensor(5), config=SPLIT, only=ONE_CUDA, require={"all": NO_FALLBACK | {"cuda_graphs": 1}})
def test_in_another_order(x, y):
    sine = y.cpu().sin()
    product = x.cos() @ x.T
    return product + 1, y.cpu().cos() + sine, product.sum()


# A part writes to an input, and the next part reads it.
@case(x=tensor(8, 16), config=SPLIT, only=ONE_CUDA, require={"all": TWO_COPIES | {"cuda_graphs.writing": 2}})
def test_written_input(x):
    x.add_(1)
    total = x.sum().cpu() * 2
    x.mul_(total.to(x.device))
    return x @ x.T


# The number of positive elements is unknown before the program runs. The operator that takes them is in no part, and
# with the option "uses", neither is what has that number in its shape.
@case(
    x=tensor(30, low=-1, high=1),
    config={
        "counts": GRAPHS | {"dynamo.capture_dynamic_output_shape_ops": True},
        "uses": GRAPHS
        | {"dynamo.capture_dynamic_output_shape_ops": True, "cudagraph_unsafe_unbacked_ops": ["aten::index.Tensor"]},
    },
    only={"cuda_sm90 torch>=2.13": "the second option is new in torch 2.13"},
    require={
        "all": {"fallbacks": ["aten.index"], "graph_breaks": 0},
        "counts": {"cuda_graphs": 2},
        "uses": {"cuda_graphs": 1},
    },
)
def test_unknown_size(x):
    positive = x[x > 0]
    return positive.sin(), x.cos()


# What has dynamic sizes is in no part: here this is all.
@case(
    x=tensor(8, 16),
    dynamic=True,
    config={"static_only": GRAPHS | {"triton.cudagraph_skip_dynamic_graphs": True}},
    only=ONE_CUDA,
    require={"all": NO_FALLBACK | {"cuda_graphs": 0}},
)
def test_dynamic_sizes(x):
    return (x.cos() @ x.T).sum()


# An option names operators that are in no part, and another one turns splitting off.
@case(
    x=tensor(8, 700),
    config={
        "named": GRAPHS | {"custom_should_partition_ops": ["aten::sort.stable"]},
        "whole": GRAPHS | {"graph_partition": False},
    },
    only=ONE_CUDA,
    require={
        "all": {"fallbacks": ["aten.sort"], "graph_breaks": 0},
        "named": {"cuda_graphs": 2},
        "whole": {"cuda_graphs": 1},
    },
)
def test_options(x):
    return x.cos().flatten().sort()[0] + 1


# A condition is in no part. Inductor refuses the parts beside it too.
@case(x=tensor(8, 16), config=SPLIT, only=ONE_CUDA, require={"all": NO_FALLBACK | {"cuda_graphs": 0}})
def test_condition(x):
    return torch.cond(x.sum() > 0, torch.sin, torch.cos, (x + 1,)) * 2


# The parts of the forward return what the backward needs.
@case(x=tensor(8, 16), grad=True, config=SPLIT, only=ONE_CUDA, require={"all": {"graph_breaks": 0}})
def test_gradients(x):
    scale = x.sum().cpu().cos()
    return torch.relu(x @ x.T) * scale.to(x.device)
