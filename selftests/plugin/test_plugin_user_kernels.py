"""A Triton kernel of a user that Triton's compiler refuses fails without options: its interpreter would take it."""

import pytest
from suites import Suite

from conformance.devices import environment

KERNELS = """
import torch
import triton
import triton.language as tl

from conformance import case, tensor

@triton.jit
def narrowed(x_ptr, out_ptr, WIDE: tl.constexpr):
    i = tl.arange(0, 64)
    x = tl.load(x_ptr + i)
    x = x.to(tl.float64) if WIDE else x
    tl.store(out_ptr + i, x.to(tl.float8e5).to(tl.float32))

@case(x=tensor(64), wide=[False, True])
def test_narrowed(x, wide):
    out = torch.empty_like(x)
    narrowed[(1,)](x, out, WIDE=wide)
    return out
"""


@pytest.mark.long("it runs several pytest processes, one after the other")
@pytest.mark.skipif(not environment.triton_version(), reason="Triton is not installed")
def test_a_conversion_that_no_gpu_has(tmp_path):
    suite = Suite(tmp_path)
    suite.write("ops/test_kernels.py", KERNELS)
    ran = suite.run("--target", "cuda_sm90").ends(1)
    ran.has("narrowed (inference) does not compile for cuda: Unsupported conversion from f64 to f8E5M2")
    ran.has_not("PassManager")
