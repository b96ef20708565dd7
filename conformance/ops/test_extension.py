"""extension: operators written in C++. Inductor calls them; one that is made of known operators it compiles."""

import torch

from conformance import case, load_cpp_extension, tensor

SOURCE = """
#include <ATen/ATen.h>
#include <torch/library.h>

at::Tensor sin_sin(const at::Tensor& x, const at::Tensor& y) {
  return at::sin(x) + at::sin(y);
}

TORCH_LIBRARY(conformance, library) {
  library.def("opaque(Tensor x, Tensor y) -> Tensor");
  library.def("composed(Tensor x, Tensor y) -> Tensor");
}

TORCH_LIBRARY_IMPL(conformance, CompositeExplicitAutograd, library) {
  library.impl("opaque", sin_sin);
}

TORCH_LIBRARY_IMPL(conformance, CompositeImplicitAutograd, library) {
  library.impl("composed", sin_sin);
}
"""


def load_operators() -> None:
    load_cpp_extension("sin_sin", SOURCE)


@case(
    x=tensor(1000, dtype=["f32", "f64"]),
    y=tensor(1000),
    prepare=load_operators,
    # One call of the operator, and one kernel for the multiplication after it.
    require={"all": {"fallbacks": ["conformance.opaque"], "kernels": 1, "graph_breaks": 0}},
)
def test_opaque(x, y):
    return torch.ops.conformance.opaque(x, y) * 2


@case(
    x=tensor(1000, dtype=["f32", "f64"]),
    y=tensor(1000),
    grad=[False, True],
    prepare=load_operators,
    require={"all": {"fallbacks": [], "extern": [], "graph_breaks": 0}, "forward": {"kernels": 1}},
)
def test_composed(x, y):
    return torch.ops.conformance.composed(x, y) * 2
