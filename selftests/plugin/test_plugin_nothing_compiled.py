"""A case of which no graph reaches Inductor fails, unless it says why: eager would be compared with itself."""

import pytest
from suites import NATIVE, Suite

CASES = """
import torch
from conformance import case, tensor

@torch._dynamo.disable
def outside(x):
    return x + 1

@case(x=tensor(8))
def test_outside(x):
    return outside(x)

@case(x=tensor(8), numerics={"without": {"graphs": "only its answer in eager matters"}})
def test_declared(x):
    return outside(x)

@case(x=tensor(4, 8), mask=tensor(4, 8, dtype="bool"))
def test_loop(x, mask):
    out = x.clone()
    for row in range(4):
        (i,) = torch.where(mask[row])
        out[row, i] = x[row, i] * 2
    return out
"""


@pytest.mark.long("it runs several pytest processes, one after the other")
def test_nothing_compiled(tmp_path):
    suite = Suite(tmp_path)
    suite.write("ops/test_graphs.py", CASES)
    ran = suite.run("--target", NATIVE, "--checks", "numerics").ends(1)
    ran.has("graphs/outside: nothing was compiled: no graph reached Inductor (Skip calling", "at `return outside(x)`)")
    ran.has(
        "graphs/loop: nothing was compiled: no graph reached Inductor (Dynamic shape operator; graph break in loop)"
    )
    ran.has("Eager would be compared with itself", "3 items = 1 passed + 2 failed")
