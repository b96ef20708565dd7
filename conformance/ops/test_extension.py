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


WRITING = """
#include <ATen/ATen.h>
#include <torch/library.h>

void reversed_into(const at::Tensor& source, at::Tensor& target) {
  const int64_t count = target.size(0);
  for (int64_t i = 0; i < count; ++i) {
    target.select(0, count - 1 - i).copy_(source.select(0, i));
  }
}

void add_to_both(at::Tensor& first, at::Tensor& second) {
  first.add_(1);
  second.mul_(2);
}

at::Tensor by_columns(const at::Tensor& x) {
  return x.mT().contiguous().mT();
}

at::Tensor of_contiguous(const at::Tensor& x) {
  TORCH_CHECK(x.is_contiguous(), "the argument is not contiguous");
  return x + 1;
}

TORCH_LIBRARY(conformance_writing, library) {
  library.def("of_contiguous(Tensor x) -> Tensor", {at::Tag::needs_contiguous_strides});
  library.def("reversed_into(Tensor source, Tensor(a!) target) -> ()");
  library.def("add_to_both(Tensor(a!) first, Tensor(b!) second) -> ()");
  library.def("by_columns(Tensor x) -> Tensor");
}

TORCH_LIBRARY_IMPL(conformance_writing, CompositeExplicitAutograd, library) {
  library.impl("reversed_into", reversed_into);
  library.impl("add_to_both", add_to_both);
  library.impl("by_columns", by_columns);
  library.impl("of_contiguous", of_contiguous);
}
"""


def load_writing_operators() -> None:
    load_cpp_extension("writing", WRITING)


# The operator reads what x was, and writes to x.
@case(x=tensor(8, 5), prepare=load_writing_operators, require={"all": {"graph_breaks": 0}})
def test_reversed_into(x):
    torch.ops.conformance_writing.reversed_into(x.clone(), x)
    return x * 2


@case(
    x=tensor(3, 20, layout=["contiguous", "transposed"]),
    y=tensor(3, 20),
    prepare=load_writing_operators,
    require={"all": {"graph_breaks": 0}},
)
def test_written_views(x, y):
    torch.ops.conformance_writing.add_to_both(x[0], y[1])
    return x[0] + y[1], x.sum(0)


# The result is stored by columns.
@case(x=tensor(4, 5, 7), prepare=load_writing_operators, require={"all": {"graph_breaks": 0}})
def test_strides_of_a_result(x):
    y = torch.ops.conformance_writing.by_columns(x.sin())
    return y.unsqueeze(1) + 1, y.flatten(1) * 2


# Inductor chooses the strides of the product: without the tag, they may be those of its transpose.
@case(
    x=tensor(20, 33, layout="transposed"),
    prepare=load_writing_operators,
    require={"all": {"graph_breaks": 0}},
)
def test_argument_that_must_be_contiguous(x):
    return torch.ops.conformance_writing.of_contiguous((x * 2).contiguous())
