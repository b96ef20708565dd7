"""Operators and Triton kernels of a project: what is compared, and one sentence where something is missing."""

import pytest
from suites import NATIVE
from suites import PreloadedSuite as Suite

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


OPERATORS = '''
import torch
import triton
import triton.language as tl
from torch.library import custom_op, triton_op, wrap_triton
from conformance import case, load_cpp_extension, tensor

@triton.jit
def scale_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + place, 3 * tl.load(x_ptr + place, place < n), place < n)

@triton_op("authors::scaled", mutates_args=())
def scaled(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    wrap_triton(scale_kernel)[(3,)](x, out, x.numel(), BLOCK=128)
    return out

scaled.register_autograd(lambda ctx, gradient: scaled(gradient.contiguous()))

@case(
    x=tensor(300),
    grad=[False, True],
    only={"gpu": "Triton has no backend for the CPU"},
    require={"all": {"fallbacks": [], "graph_breaks": 0}},
)
def test_scaled(x):
    return scaled(x) + 1

@custom_op("authors::sum_and_product", mutates_args=())
def sum_and_product(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x + y, x * y

@sum_and_product.register_fake
def _(x, y):
    return torch.empty_like(x), torch.empty_like(x)

def sum_and_product_backward(ctx, of_sum, of_product):
    x, y = ctx.saved_tensors
    return of_sum + of_product * y, of_sum + of_product * x

sum_and_product.register_autograd(
    sum_and_product_backward, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs)
)

@case(
    x=tensor(300),
    y=tensor(300),
    grad=[False, True],
    require={"all": {"fallbacks": ["authors.sum_and_product"], "graph_breaks": 0}},
)
def test_sum_and_product(x, y):
    added, multiplied = sum_and_product(x, y)
    return added * 2, multiplied.sin()

SOURCE = """
#include <ATen/ATen.h>
#include <torch/library.h>

at::Tensor cubed(const at::Tensor& x) {
  return x * x * x;
}

TORCH_LIBRARY(authors_cpp, library) {
  library.def("cubed(Tensor x) -> Tensor");
}

TORCH_LIBRARY_IMPL(authors_cpp, CompositeExplicitAutograd, library) {
  library.impl("cubed", cubed);
}
"""

def load_cubed():
    load_cpp_extension("cubed", SOURCE)
    torch.library.register_autograd(
        "authors_cpp::cubed",
        lambda ctx, gradient: 3 * gradient * ctx.saved_tensors[0] ** 2,
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    )

@case(
    x=tensor(300),
    grad=[False, True],
    prepare=load_cubed,
    require={"all": {"fallbacks": ["authors_cpp.cubed"], "graph_breaks": 0}},
)
def test_cubed(x):
    return torch.ops.authors_cpp.cubed(x) * 2
'''


@pytest.fixture(scope="module")
def operators(tmp_path_factory):
    """A run of a project's operators, forward and with gradients: natively on the CPU, and on an emulated GPU."""
    suite = Suite(tmp_path_factory.mktemp("operators"))
    suite.write("ops/test_authors.py", OPERATORS)
    return suite.run("--target", f"{NATIVE},cuda_sm90", "--checks", "requirements,numerics")


@pytest.mark.long("it runs several pytest processes, one after the other")
def test_operators_of_a_project_are_compared_with_their_gradients(operators):
    operators.ends(0)
    operators.has("numerics passed: 4 native, 6 emulated")
    operators.has("12 items = 10 passed + 2 excluded")
