// Operators of a pretended gpu: its memory is the host's, and what it computes is computed on the cpu.
//
// Tensors say cuda or xpu and hold real values, so that compiling takes the path it takes with a real device: constants
// are made and folded, list indices become tensors, graph breaks run eagerly and `.item()` has an answer. A build with
// cuda has kernels of its own for nearly every operator; `pretend_kernels` is given their names and replaces them.
#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/NativeFunctions.h>
#include <ATen/native/CPUFallback.h>
#include <torch/library.h>

#include <cstring>

namespace {

// Memory from the host's allocator that says it is the device's.
struct HostMemory final : c10::Allocator {
  c10::DeviceType type;
  explicit HostMemory(c10::DeviceType type) : type(type) {}
  static c10::Allocator* host() { return c10::GetAllocator(c10::DeviceType::CPU); }
  c10::DataPtr allocate(size_t bytes) override {
    auto data = host()->allocate(bytes);
    data.unsafe_set_device(c10::Device(type, 0));
    return data;
  }
  c10::DeleterFnPtr raw_deleter() const override { return host()->raw_deleter(); }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { std::memcpy(to, from, bytes); }
};

template <c10::DeviceType type>
at::Tensor allocated(at::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::MemoryFormat> format) {
  static HostMemory memory(type);
  constexpr auto key = type == c10::DeviceType::CUDA ? c10::DispatchKey::CUDA : c10::DispatchKey::XPU;
  return at::detail::empty_generic(size, &memory, c10::DispatchKeySet(key), c10::dtype_or_default(dtype), format);
}

template <c10::DeviceType type>
at::Tensor empty(
    c10::SymIntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout>, std::optional<at::Device>,
    std::optional<bool>, std::optional<at::MemoryFormat> format) {
  return allocated<type>(C10_AS_INTARRAYREF_SLOW(size), dtype, format);
}

template <c10::DeviceType type>
at::Tensor empty_strided(
    c10::SymIntArrayRef size, c10::SymIntArrayRef stride, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
    std::optional<at::Device>, std::optional<bool>) {
  const auto sizes = C10_AS_INTARRAYREF_SLOW(size);
  const auto strides = C10_AS_INTARRAYREF_SLOW(stride);
  const auto extent = static_cast<int64_t>(at::detail::computeStorageNbytes(sizes, strides, 1));
  auto tensor = allocated<type>({extent}, dtype, std::nullopt);
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  return tensor;
}

// The same memory as a tensor of the cpu.
at::Tensor on_host(const at::Tensor& tensor) {
  if (tensor.device().is_cpu()) return tensor;
  return at::from_blob(
      tensor.mutable_data_ptr(), tensor.sizes(), tensor.strides(), at::TensorOptions().dtype(tensor.dtype()));
}

void copy_values(const at::Tensor& to, const at::Tensor& from) {
  if (from.numel() != 0) on_host(to).copy_(on_host(from));
}

at::Tensor& copy_(at::Tensor& self, const at::Tensor& from, bool) {
  copy_values(self, from);
  return self;
}

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& to, bool) {
  copy_values(to, self);
  return to;
}

at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& to) {
  at::native::resize_(to, self.sizes(), std::nullopt);
  copy_values(to, self);
  return to;
}

at::Scalar item(const at::Tensor& self) { return on_host(self).item(); }

void on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) { at::native::cpu_fallback(op, stack); }

// Registrations last as long as the process: the libraries are never deleted.
template <c10::DeviceType type>
void install(c10::DispatchKey key, const char* const* names, int count) {
  auto* others = new torch::Library(torch::Library::IMPL, "_", key, __FILE__, __LINE__);
  others->fallback(torch::CppFunction::makeFromBoxedFunction<&on_cpu>());
  auto* aten = new torch::Library(torch::Library::IMPL, "aten", key, __FILE__, __LINE__);
  for (int i = 0; i < count; ++i) aten->impl(names[i], torch::CppFunction::makeFromBoxedFunction<&on_cpu>());
  // What makes tensors, moves them, or looks at the same memory.
  aten->impl("empty.memory_format", TORCH_FN((empty<type>)));
  aten->impl("empty_strided", TORCH_FN((empty_strided<type>)));
  aten->impl("copy_", TORCH_FN(copy_));
  aten->impl("_copy_from", TORCH_FN(copy_from));
  aten->impl("_copy_from_and_resize", TORCH_FN(copy_from_and_resize));
  aten->impl("_local_scalar_dense", TORCH_FN(item));
  aten->impl("resize_", TORCH_FN(at::native::resize_));
  aten->impl("set_.source_Storage_storage_offset", TORCH_FN(at::native::set_storage_cpu_));
  aten->impl("as_strided", TORCH_FN(at::native::as_strided_tensorimpl));
  aten->impl("view", TORCH_FN(at::native::view));
  aten->impl("_reshape_alias", TORCH_FN(at::native::_reshape_alias));
  aten->impl("unfold", TORCH_FN(at::native::unfold));
}

}  // namespace

// `device`: 1 cuda, 2 xpu. `names`: of aten, the operators with kernels of the device's own, without those above.
extern "C" void pretend_kernels(int device, const char* const* names, int count) {
  if (device == 1) {
    install<c10::DeviceType::CUDA>(c10::DispatchKey::CUDA, names, count);
  } else {
    install<c10::DeviceType::XPU>(c10::DispatchKey::XPU, names, count);
  }
}
