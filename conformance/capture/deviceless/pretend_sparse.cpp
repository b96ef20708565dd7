// Sparse tensors of a pretended GPU.
//
// A sparse tensor consists of dense ones. Nearly all sparse kernels are the same C++ code for every device and call
// operators on the indices and values. For these, the CPU's kernel is called with the device's tensors. Kernels that
// access memory directly get copies on the CPU.
#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

namespace {

template <c10::DispatchKey key>
void like_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  op.redispatchBoxed(c10::DispatchKeySet(key), stack);
}

// These access memory directly, according to aten/src/ATen/native/native_functions.yaml (2.11 to 2.15).
constexpr const char* sparse_of_its_own[] = {
    "_coalesce", "_sparse_log_softmax", "_sparse_log_softmax_backward_data", "_sparse_softmax",
    "_sparse_softmax_backward_data", "_sparse_sparse_matmul", "_sparse_sum_backward", "add.out", "addmm", "addmm.out",
    "addmm_", "bmm", "bmm.out", "hspmm", "hspmm.out", "index_select", "mul.out", "sspaddmm.out"};
constexpr const char* compressed_of_its_own[] = {
    "_sparse_csr_prod.dim_dtype", "_sparse_csr_sum.dim_dtype", "add.out", "addmm.out", "addmv.out",
    "sparse_sampled_addmm", "sparse_sampled_addmm.out", "triangular_solve.X"};
constexpr const char* cpu_alone[] = {"_sparse_mm_reduce_impl", "_sparse_mm_reduce_impl_backward"};

// Copies back what an operator wrote into a copy on the CPU.
void write_back(const at::Tensor& to, const at::Tensor& from) {
  if (to.layout() == at::kStrided) {
    at::_copy_from_and_resize(from, to);
  } else {
    to.resize_as_sparse_(from);
    at::Tensor(to).copy_(from);
  }
}

// Like at::native::cpu_fallback, which would treat sparse tensors as dense ones.
void sparse_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto& schema = op.schema();
  std::vector<c10::IValue> given(stack->end() - schema.arguments().size(), stack->end());
  auto* here = &*(stack->end() - given.size());
  std::optional<c10::Device> device;
  for (size_t i = 0; i < given.size(); ++i) {
    if (!given[i].isTensor() || !given[i].toTensor().defined()) continue;
    if (!given[i].toTensor().is_cpu()) device = given[i].toTensor().device();
    here[i] = given[i].toTensor().cpu();
  }
  const std::vector<c10::IValue> copies(here, here + given.size());
  op.callBoxed(stack);
  auto* results = &*(stack->end() - schema.returns().size());
  for (size_t r = 0; r < schema.returns().size(); ++r) {
    if (results[r].isTensor() && results[r].toTensor().defined()) results[r] = results[r].toTensor().to(*device);
  }
  for (size_t i = 0; i < given.size(); ++i) {
    const auto* alias = schema.arguments()[i].alias_info();
    if (!alias || !alias->isWrite() || !given[i].isTensor()) continue;
    write_back(given[i].toTensor(), copies[i].toTensor());
    for (size_t r = 0; r < schema.returns().size(); ++r) {
      const auto* same = schema.returns()[r].alias_info();
      if (same && *same == *alias) results[r] = given[i];
    }
  }
}

void no_kernel(const c10::OperatorHandle& op, torch::jit::Stack*) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, op.operator_name(), " has no kernel for this device: the cpu alone has one");
}

template <c10::DispatchKey key, c10::DispatchKey cpu, size_t count>
void install_sparse(const char* const* names, const char* const (&of_its_own)[count]) {
  auto* aten = new torch::Library(torch::Library::IMPL, "aten", key, __FILE__, __LINE__);
  for (; *names; ++names) aten->impl(*names, torch::CppFunction::makeFromBoxedFunction<&like_cpu<cpu>>());
  for (const auto* name : of_its_own) aten->impl(name, torch::CppFunction::makeFromBoxedFunction<&sparse_on_cpu>());
  if (cpu != c10::DispatchKey::SparseCsrCPU) return;
  for (const auto* name : cpu_alone) aten->impl(name, torch::CppFunction::makeFromBoxedFunction<&no_kernel>());
}

// PyTorch warns that kernels are replaced. That is intended.
struct Silent final : c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

}  // namespace

// `sparse`, `compressed`: the aten operators with a CPU kernel for that layout. Both arrays end with a null.
extern "C" void pretend_sparse(int device, const char* const* sparse, const char* const* compressed) {
  using c10::DispatchKey;
  Silent silent;
  c10::WarningUtils::WarningHandlerGuard guard(&silent);
  if (device == 1) {
    install_sparse<DispatchKey::SparseCUDA, DispatchKey::SparseCPU>(sparse, sparse_of_its_own);
    install_sparse<DispatchKey::SparseCsrCUDA, DispatchKey::SparseCsrCPU>(compressed, compressed_of_its_own);
  } else if (device == 2) {
    install_sparse<DispatchKey::SparseXPU, DispatchKey::SparseCPU>(sparse, sparse_of_its_own);
    install_sparse<DispatchKey::SparseCsrXPU, DispatchKey::SparseCsrCPU>(compressed, compressed_of_its_own);
  } else {
    install_sparse<DispatchKey::SparseMPS, DispatchKey::SparseCPU>(sparse, sparse_of_its_own);
    install_sparse<DispatchKey::SparseCsrMPS, DispatchKey::SparseCsrCPU>(compressed, compressed_of_its_own);
  }
}
