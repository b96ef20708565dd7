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

class OtherScale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        mask = torch.rand_like(x) < 0.5
        ctx.save_for_backward(mask)
        return x * mask * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.saved_tensors[0] * planted(2, 1)

@case(x=tensor(20, 30), grad=True)
def test_gradient_scale(x):
    return OtherScale.apply(x)

@case(x=tensor(20, 30))
def test_normal_scale(x):
    return x + planted(1, 1.2) * torch.randn_like(x)

@case(x=tensor(20, 30))
def test_uniform_range(x):
    return x + torch.rand_like(x) * planted(1, 2)

@case(x=tensor(20, 30))
def test_other_law(x):
    return x + (torch.rand_like(x) - 0.5) * 12**0.5 if torch.compiler.is_compiling() else x + torch.randn_like(x)

@case(x=tensor(20, 30))
def test_end_of_integers(x):
    return torch.randint_like(x, 0, planted(10, 9)) + x

@case(x=tensor(20, 30, low=0, high=1))
def test_order_of_probabilities(x):
    return torch.bernoulli(planted(x, x.flip(0)))

@case(x=tensor(20, 30))
def test_repeated_numbers(x):
    first = torch.rand_like(x)
    return first + x, planted(torch.rand_like(x), first)

@case(x=tensor(20, 30))
def test_rate(x):
    return x + torch.empty_like(x).exponential_(planted(1.0, 2.0))

@case(x=tensor(20, 30))
def test_kept_share(x):
    return F.dropout(x, planted(0.3, 0.7))

@case(x=tensor(20, 30))
def test_twice(x):
    return F.dropout(F.dropout(x, 0.2), 0.2) if torch.compiler.is_compiling() else F.dropout(x, 0.2)

@case(x=tensor(20, 30))
def test_lost_dropout(x):
    return planted(F.dropout(x, 0.2), x) + 1
"""

#: Mistakes in the compiler itself. The last size of a tensor chooses one.
WRONG_LOWERINGS = """
import torch
from torch.nn import functional as F
from conformance import case, tensor

ONE, ROWS, UNIFORM, SEED = 31, 32, 33, 34

def plant():
    from torch._inductor import inductor_prims as prims, lowering

    tables = lowering.lowerings
    random, lookup = tables[prims.random], tables[prims.lookup_seed]

    def wrong_random(size, seed, mode, **options):
        if size[-1] == ONE:
            return tables[torch.ops.aten.expand.default](random([1] * len(size), seed, mode, **options), size)
        if size[-1] == ROWS:
            return tables[torch.ops.aten.expand.default](random(size[-1:], seed, mode, **options), size)
        return random(size, seed, "rand" if size[-1] == UNIFORM else mode, **options)

    def wrong_lookup(seeds, index):
        return lookup(seeds, 0 if seeds.get_size()[0] == 2 else index)

    tables[prims.random], tables[prims.lookup_seed] = wrong_random, wrong_lookup

plant()

@case(x=tensor(20, ONE))
def test_one_number(x):
    return x + torch.rand_like(x)

@case(x=tensor(20, ROWS))
def test_equal_rows(x):
    return F.dropout(x, 0.4)

@case(x=tensor(20, UNIFORM))
def test_uniform(x):
    return x + torch.randn_like(x)

@case(x=tensor(20, SEED))
def test_seed(x):
    return torch.rand_like(x) + 0 * x, torch.rand_like(x)
"""

TARGETS = [
    NATIVE,
    pytest.param(
        "cuda_sm90", marks=pytest.mark.skipif(not environment.triton_version(), reason="Triton is not installed")
    ),
]


@pytest.mark.long("it interprets kernels that draw many thousands of numbers")
@pytest.mark.parametrize("target", TARGETS)
def test_right_functions_pass(tmp_path, target):
    suite = Suite(tmp_path)
    suite.write("ops/test_right.py", RIGHT)
    suite.run("--target", target, "--checks", "numerics", "-v").ends(0).has("5 items = 5 passed")


@pytest.mark.long("it interprets kernels that draw many thousands of numbers")
@pytest.mark.parametrize("target", TARGETS)
def test_planted_mistakes_fail(tmp_path, target):
    suite = Suite(tmp_path)
    suite.write("ops/test_wrong.py", WRONG)
    ran = suite.run("--target", target, "--checks", "numerics").ends(1)
    ran.has("16 items = 16 failed", "compiled draws the same numbers in each of 16 calls")
    ran.has("the mean square of what compiled draws by default is")
    ran.has("gradient of x: the backward uses other numbers than the forward")


@pytest.mark.long("it interprets kernels that draw many thousands of numbers")
@pytest.mark.parametrize("target", TARGETS)
def test_mistakes_of_the_compiler_fail(tmp_path, target):
    """They do not show with fallback_random: what is drawn by default breaks a promise."""
    suite = Suite(tmp_path)
    suite.write("ops/test_wrong.py", WRONG_LOWERINGS)
    ran = suite.run("--target", target, "--checks", "numerics").ends(1)
    ran.has("4 items = 4 failed", "elements share what compiled draws", "their mean product is")
    ran.has("the mean of what compiled draws by default is")
