// The operators of the device. All but a few run the CPU's kernel on the same memory: each tensor of the device becomes
// a CPU tensor that aliases it, the kernel runs, and its results become tensors of the device again. So strides,
// aliasing, views and mutation are those of the CPU.

#include "acme.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/native/Resize.h>
#include <torch/library.h>

#include <unordered_map>
#include <utility>
#include <vector>

namespace acme {

namespace {

constexpr auto kHere = c10::DeviceType::PrivateUse1;

c10::DispatchKeySet keys(const at::Tensor& like, c10::DispatchKey backend) {
  c10::DispatchKeySet result(backend);
  for (auto key : {c10::DispatchKey::Conjugate, c10::DispatchKey::Negative, c10::DispatchKey::ZeroTensor}) {
    if (like.key_set().has(key)) {
      result = result.add(key);
    }
  }
  return result;
}

// A tensor on `storage` with the sizes, strides and dtype of another one.
at::Tensor tensor_like(const at::Tensor& like, c10::Storage storage, c10::DispatchKey backend) {
  auto result = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), keys(like, backend), like.dtype());
  auto* impl = result.unsafeGetTensorImpl();
  impl->set_storage_offset(like.storage_offset());
  impl->set_sizes_and_strides(like.sizes(), like.strides());
  if (like.unsafeGetTensorImpl()->is_wrapped_number()) {
    impl->set_wrapped_number(true);
  }
  return result;
}

template <typename Owner>
c10::DataPtr borrowed(void* data, Owner owner, c10::Device device) {
  return {data, new Owner(std::move(owner)), [](void* kept) { delete static_cast<Owner*>(kept); }, device};
}

// The tensors and storages of one call, on both sides.
class Call {
 public:
  at::Tensor to_cpu(const at::Tensor& tensor) {
    if (!tensor.defined() || tensor.device().type() != kHere) {
      others_.push_back(tensor);
      return tensor;
    }
    TORCH_CHECK_NOT_IMPLEMENTED(
        tensor.layout() == c10::kStrided, "acme has only dense tensors, and this one is ", tensor.layout());
    for (auto& [here, there] : arguments_) {
      if (here.is_same(tensor)) {
        return there;
      }
    }
    auto there = tensor_like(tensor, storage_on_cpu(tensor.storage()), c10::DispatchKey::CPU);
    arguments_.emplace_back(tensor, there);
    return there;
  }

  at::Tensor to_device(const at::Tensor& tensor) {
    if (!tensor.defined() || !tensor.device().is_cpu() || returned_to_cpu_) {
      return tensor;
    }
    for (auto& [here, there] : arguments_) {
      if (there.is_same(tensor)) {
        return here;
      }
    }
    for (const auto& other : others_) {
      if (other.is_same(tensor)) {
        return tensor;
      }
    }
    TORCH_CHECK_NOT_IMPLEMENTED(
        tensor.layout() == c10::kStrided, "acme has only dense tensors, and this result is ", tensor.layout());
    return tensor_like(tensor, storage_on_device(tensor.storage()), c10::DispatchKey::PrivateUse1);
  }

  at::Generator to_cpu(const at::Generator& generator) {
    if (!generator.defined() || generator.device().type() != kHere) {
      return generator;
    }
    auto there = at::make_generator<at::CPUGeneratorImpl>();
    there.set_state(generator.get_state());
    generators_.emplace_back(generator, there);
    return there;
  }

  c10::Device to_cpu(c10::Device device) {
    if (device.type() != kHere) {
      returned_to_cpu_ = device.is_cpu();
      return device;
    }
    refuse_unknown(device.index());
    return c10::kCPU;
  }

  // What the kernel has changed beside its results: resized or replaced memory, sizes, generators.
  void finish() {
    for (auto& [here, there] : storages_) {
      if (there.data() != here.data() || there.nbytes() != here.nbytes()) {
        here.unsafeGetStorageImpl()->set_nbytes(there.nbytes());
        here.set_data_ptr_noswap(on_device(std::move(there.mutable_data_ptr())));
      }
    }
    for (auto& [here, there] : arguments_) {
      if (there.sizes() != here.sizes() || there.strides() != here.strides()) {
        here.unsafeGetTensorImpl()->set_sizes_and_strides(there.sizes(), there.strides());
      }
    }
    for (auto& [here, there] : generators_) {
      here.set_state(there.get_state());
    }
  }

 private:
  c10::Storage storage_on_cpu(const c10::Storage& storage) {
    for (auto& [here, there] : storages_) {
      if (here.is_alias_of(storage)) {
        return there;
      }
    }
    c10::Storage there(c10::make_intrusive<c10::StorageImpl>(
        c10::StorageImpl::use_byte_size_t(),
        storage.nbytes(),
        borrowed(const_cast<void*>(storage.data()), storage, c10::kCPU),
        c10::GetCPUAllocator(),
        storage.resizable()));
    storages_.emplace_back(storage, there);
    return there;
  }

  c10::Storage storage_on_device(const c10::Storage& storage) {
    for (auto& [here, there] : storages_) {
      if (there.is_alias_of(storage)) {
        return here;
      }
    }
    c10::Storage here(c10::make_intrusive<c10::StorageImpl>(
        c10::StorageImpl::use_byte_size_t(),
        storage.nbytes(),
        borrowed(const_cast<void*>(storage.data()), storage, device()),
        allocator(),
        true));
    storages_.emplace_back(here, storage);
    return here;
  }

  std::vector<std::pair<at::Tensor, at::Tensor>> arguments_;
  std::vector<at::Tensor> others_;
  std::vector<std::pair<c10::Storage, c10::Storage>> storages_;
  std::vector<std::pair<at::Generator, at::Generator>> generators_;
  bool returned_to_cpu_ = false;
};

// Replaces the tensors in a value, also in lists.
template <typename Replace>
c10::IValue replaced(const c10::IValue& value, const Replace& replace) {
  if (value.isTensor()) {
    return replace(value.toTensor());
  }
  if (value.isTensorList()) {
    c10::List<at::Tensor> result;
    for (const at::Tensor& each : value.toTensorVector()) {
      result.push_back(replace(each));
    }
    return result;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> result;
    for (const std::optional<at::Tensor>& each : value.toOptionalTensorVector()) {
      result.push_back(each.has_value() ? std::optional<at::Tensor>(replace(*each)) : std::nullopt);
    }
    return result;
  }
  return value;
}

// Runs the CPU's kernel of any operator.
void run_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Call call;
  const auto& schema = op.schema();
  const size_t first = stack->size() - schema.arguments().size();
  for (size_t i = first; i < stack->size(); ++i) {
    c10::IValue& value = (*stack)[i];
    if (value.isDevice()) {
      value = call.to_cpu(value.toDevice());
    } else if (value.isGenerator()) {
      value = call.to_cpu(value.toGenerator());
    } else {
      value = replaced(value, [&](const at::Tensor& tensor) { return call.to_cpu(tensor); });
    }
  }
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
  call.finish();
  for (size_t i = stack->size() - schema.returns().size(); i < stack->size(); ++i) {
    (*stack)[i] = replaced((*stack)[i], [&](const at::Tensor& tensor) { return call.to_device(tensor); });
  }
}

at::Tensor empty(
    c10::SymIntArrayRef size,
    std::optional<at::ScalarType> dtype,
    std::optional<at::Layout> layout,
    std::optional<at::Device> wanted,
    std::optional<bool> pin_memory,
    std::optional<at::MemoryFormat> memory_format) {
  TORCH_CHECK_NOT_IMPLEMENTED(c10::layout_or_default(layout) == c10::kStrided, "acme has only dense tensors");
  refuse_unknown(c10::device_or_default(wanted).index());
  return at::detail::empty_generic(
      C10_AS_INTARRAYREF_SLOW(size),
      allocator(),
      c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
      c10::dtype_or_default(dtype),
      memory_format);
}

at::Tensor empty_strided(
    c10::SymIntArrayRef size,
    c10::SymIntArrayRef stride,
    std::optional<at::ScalarType> dtype,
    std::optional<at::Layout> layout,
    std::optional<at::Device> wanted,
    std::optional<bool> pin_memory) {
  TORCH_CHECK_NOT_IMPLEMENTED(c10::layout_or_default(layout) == c10::kStrided, "acme has only dense tensors");
  refuse_unknown(c10::device_or_default(wanted).index());
  return at::detail::empty_strided_generic(
      C10_AS_INTARRAYREF_SLOW(size),
      C10_AS_INTARRAYREF_SLOW(stride),
      allocator(),
      c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
      c10::dtype_or_default(dtype));
}

const at::Tensor& resize_(
    const at::Tensor& self, c10::SymIntArrayRef size, std::optional<at::MemoryFormat> memory_format) {
  auto sizes = C10_AS_INTARRAYREF_SLOW(size);
  auto* impl = self.unsafeGetTensorImpl();
  if (self.sizes() != sizes) {
    impl->set_sizes_contiguous(sizes);
    const size_t needed = (self.storage_offset() + self.numel()) * self.element_size();
    if (needed > self.storage().nbytes()) {
      resize_storage(*self.storage().unsafeGetStorageImpl(), needed);
    }
  }
  if (memory_format.has_value() && *memory_format != at::MemoryFormat::Preserve) {
    impl->empty_tensor_restride(*memory_format);
  }
  return self;
}

at::Tensor& set_storage(
    at::Tensor& self,
    at::Storage source,
    c10::SymInt offset,
    c10::SymIntArrayRef size,
    c10::SymIntArrayRef stride) {
  auto* impl = self.unsafeGetTensorImpl();
  auto sizes = C10_AS_INTARRAYREF_SLOW(size);
  impl->set_storage_keep_dtype(std::move(source));
  impl->set_storage_offset(offset.expect_int());
  if (stride.empty() && !size.empty()) {
    impl->set_sizes_contiguous(sizes);
  } else {
    impl->set_sizes_and_strides(sizes, C10_AS_INTARRAYREF_SLOW(stride));
  }
  const size_t needed =
      at::detail::computeStorageNbytes(self.sizes(), self.strides(), self.element_size(), self.storage_offset());
  if (self.numel() > 0 && needed > self.storage().nbytes()) {
    resize_storage(*self.storage().unsafeGetStorageImpl(), needed);
  }
  return self;
}

at::Tensor& set_source(at::Tensor& self, at::Storage source) {
  const auto elements = static_cast<int64_t>(source.nbytes() / self.element_size());
  return set_storage(self, std::move(source), 0, c10::SymIntArrayRef(c10::SymInt(elements)), {});
}

at::Tensor& set_tensor(at::Tensor& self, const at::Tensor& source) {
  return set_storage(self, source.storage(), source.storage_offset(), source.sym_sizes(), source.sym_strides());
}

at::Tensor& set_nothing(at::Tensor& self) {
  c10::Storage nothing(c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), 0, allocator()->allocate(0), allocator(), true));
  return set_storage(self, nothing, 0, c10::SymIntArrayRef(c10::SymInt(0)), {});
}

at::Scalar item(const at::Tensor& self) {
  Call call;
  return at::_local_scalar_dense(call.to_cpu(self));
}

// Contiguous results: PyTorch expects that of devices that it does not know.
at::Tensor convolution(
    const at::Tensor& input,
    const at::Tensor& weight,
    const std::optional<at::Tensor>& bias,
    c10::SymIntArrayRef stride,
    c10::SymIntArrayRef padding,
    c10::SymIntArrayRef dilation,
    bool transposed,
    c10::SymIntArrayRef output_padding,
    c10::SymInt groups) {
  Call call;
  std::optional<at::Tensor> bias_there;
  if (bias.has_value()) {
    bias_there = call.to_cpu(*bias);
  }
  auto result = at::convolution_symint(
      call.to_cpu(input),
      call.to_cpu(weight),
      bias_there,
      stride,
      padding,
      dilation,
      transposed,
      output_padding,
      std::move(groups));
  return call.to_device(result.contiguous());
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward(
    const at::Tensor& gradient,
    const at::Tensor& input,
    const at::Tensor& weight,
    c10::SymIntArrayRef stride,
    c10::SymIntArrayRef padding,
    c10::SymIntArrayRef dilation,
    bool transposed,
    c10::SymIntArrayRef output_padding,
    c10::SymInt groups,
    std::array<bool, 3> mask) {
  Call call;
  auto weight_there = call.to_cpu(weight);
  std::vector<c10::SymInt> bias_sizes{gradient.sym_size(1)};
  auto results = at::convolution_backward_symint(
      call.to_cpu(gradient),
      call.to_cpu(input),
      weight_there,
      c10::SymIntArrayRef(bias_sizes),
      stride,
      padding,
      dilation,
      transposed,
      output_padding,
      std::move(groups),
      mask);
  auto wrapped = [&](const at::Tensor& result) {
    return result.defined() ? call.to_device(result.contiguous()) : at::Tensor();
  };
  return {wrapped(std::get<0>(results)), wrapped(std::get<1>(results)), wrapped(std::get<2>(results))};
}

// Attention as a sequence of operators: the device has no fused kernel.
int64_t attention_choice(
    const at::Tensor&,
    const at::Tensor&,
    const at::Tensor&,
    const std::optional<at::Tensor>&,
    double,
    bool,
    std::optional<double>,
    bool) {
  return 0; // sdp::SDPBackend::math
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("empty.memory_format", empty);
  library.impl("empty_strided", empty_strided);
  library.impl("resize_", resize_);
  library.impl("set_.source_Storage", set_source);
  library.impl("set_.source_Storage_storage_offset", set_storage);
  library.impl("set_.source_Tensor", set_tensor);
  library.impl("set_", set_nothing);
  library.impl("_local_scalar_dense", item);
  library.impl("_fused_sdp_choice", attention_choice);
  library.impl("convolution_overrideable", convolution);
  library.impl("convolution_backward_overrideable", convolution_backward);
  // PyTorch's own kernel, which all devices share, knows no copy from or to this one.
  library.impl("copy_", torch::CppFunction::makeFromBoxedFunction<&run_on_cpu>());
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&run_on_cpu>());
}

} // namespace

// Some operators of which the CPU has a kernel have one for all devices too. Here too, the CPU's is the one that runs.
void register_operators_of_cpu() {
  static torch::Library library(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const auto& name : dispatcher.getRegistrationsForDispatchKey(c10::DispatchKey::CPU)) {
    const auto op = dispatcher.findOp(name);
    if (op.has_value() && name.getNamespace() == "aten" &&
        !op->hasKernelForDispatchKey(c10::DispatchKey::PrivateUse1)) {
      const std::string overload = name.overload_name.empty() ? "" : "." + name.overload_name;
      library.impl((name.name + overload).c_str(), torch::CppFunction::makeFromBoxedFunction<&run_on_cpu>());
    }
  }
}

} // namespace acme

TORCH_LIBRARY_FRAGMENT(acme, library) {
  library.def("_register() -> ()", [] {
    acme::register_hooks();
    acme::register_operators_of_cpu();
  });
}
