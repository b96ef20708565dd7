"""Our operators, compiled: on the CPU of this machine, and for a GPU that it does not have."""

import functools

import torch

from conformance import case, load_cpp_extension, tensor
from gates import in_cpp
from gates.in_triton import swiglu


@functools.cache
def load_gates():
    load_cpp_extension("gates", in_cpp.SOURCE)
    in_cpp.register_formula()


@case(
    x=tensor(),
    y=tensor(),
    shape=[(300,), (7, 33)],
    grad=[False, True],
    only={"gpu": "Triton has no backend for the CPU"},
    require={"all": {"fallbacks": [], "graph_breaks": 0}},  # the kernel is Inductor's to place, and nothing splits
)
def test_swiglu(x, y):
    return swiglu(x, y) + 1


@case(
    x=tensor(),
    gate=tensor(),
    shape=[(300,), (7, 33)],
    grad=[False, True],
    prepare=load_gates,
    require={"all": {"fallbacks": ["gates.gated"], "graph_breaks": 0}},  # Inductor calls the operator as it is
)
def test_gated(x, gate):
    return torch.ops.gates.gated(x, gate) * 2
