// gates::gated(x, gate): x · sigmoid(gate).
#include <ATen/ATen.h>
#include <torch/library.h>

namespace {

at::Tensor gated(const at::Tensor& x, const at::Tensor& gate) {
  TORCH_CHECK(x.sizes() == gate.sizes(), "gates::gated takes two tensors of one shape");
  return x * at::sigmoid(gate);
}

// Shapes and dtypes while torch.compile traces: no element is read.
at::Tensor gated_fake(const at::Tensor& x, const at::Tensor& gate) {
  return at::empty_like(x);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(gates, library) {
  library.def("gated(Tensor x, Tensor gate) -> Tensor");
}

// The kernel for the CPU. One for CUDA stands in a file that nvcc compiles.
TORCH_LIBRARY_IMPL(gates, CPU, library) {
  library.impl("gated", gated);
}

TORCH_LIBRARY_IMPL(gates, Meta, library) {
  library.impl("gated", gated_fake);
}
