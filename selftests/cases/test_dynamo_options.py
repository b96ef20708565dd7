"""Options of Dynamo in a case's `config`: with them, data-dependent shapes and numbers stay in one graph."""

from __future__ import annotations

CASES = """
from conformance import case, tensor

WHOLE = {"dynamo.capture_dynamic_output_shape_ops": True, "dynamo.capture_scalar_outputs": True}
CONFIG = {"broken": {}, "whole": WHOLE | {"triton.unique_kernel_names": True}}

@case(x=tensor(20), config=CONFIG, require={"broken": {"graph_breaks": 1}})
def test_nonzero(x):
    return x.nonzero() * 2

@case(x=tensor(20), config=CONFIG, require={"broken": {"graph_breaks": 1}})
def test_item(x):
    return x * x.sum().item()
"""


def test_data_dependent_shapes(suite):
    suite.write("ops/test_scale.py", CASES)
    suite.accept("--target", "cuda_sm90,xpu_pvc", "--no-emulation").ends(0).has("snapshots: 8 new")
    stored = suite.stored()
    assert "u0" in stored["scale/nonzero-whole.txt"]
    assert "u0" not in stored["scale/nonzero-broken.txt"]
    assert "kernels       1: sum, mul" in stored["scale/item-whole.txt"], "one graph, one kernel"
    assert "graph 1" in stored["scale/item-broken.txt"]
