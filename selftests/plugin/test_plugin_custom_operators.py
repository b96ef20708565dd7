"""A Triton kernel of a project, in a case for the CPU: one sentence says what to declare."""

import pytest
from suites import NATIVE, Suite

from conformance.devices import environment

if not environment.triton_version():
    pytest.skip("Triton is not installed: pip install triton", allow_module_level=True)

KERNEL = """
import torch
import triton
import triton.language as tl
from conformance import case, tensor

@triton.jit
def copy_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + place, tl.load(x_ptr + place, place < n), place < n)

@case(x=tensor(300))
def test_copied(x):
    out = torch.empty_like(x)
    copy_kernel[(3,)](x, out, 300, BLOCK=128)
    return out
"""


def test_on_the_cpu(tmp_path):
    suite = Suite(tmp_path)
    suite.write("ops/test_kernel.py", KERNEL)
    ran = suite.run("--target", NATIVE, "--checks", "requirements").ends(1)
    ran.has("Triton has no backend for the CPU: declare only={'gpu': 'Triton has no backend for the CPU'} in @case")
