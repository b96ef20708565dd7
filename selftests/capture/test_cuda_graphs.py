"""Cases with CUDA graphs: without the device, the same code is generated, and emulation runs it without graphs."""

from __future__ import annotations

import re

import pytest
from capturing import captured
from suites import SM90, Suite

from conformance.cases.inputs import tensor

GRAPHS = {"triton.cudagraphs": True}

CASES = """
import torch
from conformance import case, tensor

CONFIG = {
    "graphs": {"triton.cudagraphs": True},
    "whole": {"triton.cudagraphs": True, "graph_partition": False},
    "plain_graphs": {"triton.cudagraphs": True, "triton.cudagraph_trees": False},
}

@case(x=tensor(20, 30), config=CONFIG, grad=[False, True])
def test_scale(x):
    return (x * 2).relu()

@case(x=tensor(20, 30), config=CONFIG)
def test_through_the_cpu(x):
    total = x.sum().cpu() + 1
    return x * total.to(x.device), total
"""


def kernels(capture):
    text = "".join(module.code for module in capture.modules)
    return re.findall(r"async_compile\.triton\(.*?'''\n(.*?)'''", text, re.DOTALL)


@pytest.mark.parametrize("grad", ["", "x"])
def test_the_kernels_are_the_same(grad):
    def scaled(x):
        return (x * 2).relu().sum(0)

    plain, graphs = (captured(scaled, "cuda_sm90", grad=grad, config=c, x=tensor(20, 30)) for c in (None, GRAPHS))
    assert kernels(plain) == kernels(graphs) != []
    assert "cudagraph_skips" not in graphs.counters.get("inductor", {})


@pytest.mark.long("its own pytest process captures and interprets kernels")
def test_numerics_without_graphs(tmp_path):
    suite = Suite(tmp_path)
    suite.write("ops/test_graphs.py", CASES)
    ran = suite.run(*SM90, "--checks", "numerics").ends(0)
    ran.has("9 items: 9 deviceless", "numerics passed: 9 emulated")
