"""Random functions: what is right passes, and planted mistakes fail, natively and emulated."""

import pytest
from suites import NATIVE, Suite

from conformance.devices import environment

RIGHT = """
import torch
from torch.nn import functional as F
from conformance import case, tensor

@case(x=tensor(20, 30), grad=[False, True])
def test_dropout(x):
    return F.dropout(x * 2, 0.5)

@case(x=tensor(20, 30), dtype=["f32", "bf16"])
def test_noise(x):
    return x + torch.randn_like(x) * torch.rand_like(x)

@case(q=tensor(1, 2, 8, 16), k=tensor(1, 2, 8, 16), v=tensor(1, 2, 8, 16), grad=True)
def test_attention(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, dropout_p=0.3)
"""

WRONG = """
import torch
from torch.nn import functional as F
from conformance import case, tensor

def planted(right, wrong):
    return wrong if torch.compiler.is_compiling() else right

class OtherMask(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return F.dropout(x, 0.5)

    @staticmethod
    def backward(ctx, gradient):
        return F.dropout(gradient, 0.5)

@case(x=tensor(20, 30))
def test_scale(x):
    return F.dropout(x, 0.5) * planted(1, 3)

@case(x=tensor(20, 30))
def test_input(x):
    return planted(x, x + 2) + torch.randn_like(x)

@case(x=tensor(20, 30))
def test_probability(x):
    return F.dropout(x, planted(0.5, 0.4))

@case(x=tensor(20, 30))
def test_constant(x):
    return x + planted(torch.randn_like(x), 0.1)

@case(x=tensor(20, 30), grad=True)
def test_mask(x):
    return OtherMask.apply(x) if torch.compiler.is_compiling() else F.dropout(x, 0.5)
"""

TARGETS = [
    NATIVE,
    pytest.param(
        "cuda_sm90", marks=pytest.mark.skipif(not environment.triton_version(), reason="Triton is not installed")
    ),
]


@pytest.mark.long
@pytest.mark.parametrize("target", TARGETS)
def test_right_functions_pass(tmp_path, target):
    suite = Suite(tmp_path)
    suite.write("ops/test_right.py", RIGHT)
    suite.run("--target", target, "--checks", "numerics", "-v").ends(0).has("5 items = 5 passed")


@pytest.mark.long
@pytest.mark.parametrize("target", TARGETS)
def test_planted_mistakes_fail(tmp_path, target):
    suite = Suite(tmp_path)
    suite.write("ops/test_wrong.py", WRONG)
    ran = suite.run("--target", target, "--checks", "numerics").ends(1)
    ran.has("5 items = 5 failed", "compiled draws the same numbers in each of 16 calls")
    ran.has("the mean square of what compiled draws by default is")
    ran.has("gradient of x: the backward uses other numbers than the forward")
