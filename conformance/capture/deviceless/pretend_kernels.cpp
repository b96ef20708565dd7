// Operators of a pretended GPU. Its tensors are in CPU memory, and the CPU computes their values.
//
// The tensors report cuda, xpu or mps as their device and hold real values. So compiling takes the same path as with a real
// device: constants are made and folded, list indices become tensors, graph breaks run eagerly, `.item()` works. A
// build with cuda has its own kernels for nearly every operator; `pretend_kernels` takes their names and replaces them.
#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/NativeFunctions.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/native/ConvUtils.h>
#include <c10/util/Exception.h>
#include <torch/library.h>
#include <torch/version.h>

#include <cstring>

extern bool pretend_is_rocm;  // pretend_device.cpp

namespace {

// Whether tensors of a pretended device may be made. Not in a project's own tests, which must find no device.
bool has_memory = true;

// Memory from the CPU's allocator that reports the pretended device.
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
constexpr auto key_of = type == c10::DeviceType::CUDA ? c10::DispatchKey::CUDA
    : type == c10::DeviceType::XPU                    ? c10::DispatchKey::XPU
                                                      : c10::DispatchKey::MPS;

template <c10::DeviceType type>
at::Tensor allocated(at::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::MemoryFormat> format) {
  static HostMemory memory(type);
  TORCH_CHECK(has_memory, "There is no ", type, " device: conformance pretends one, and only while its own cases run");
  return at::detail::empty_generic(size, &memory, c10::DispatchKeySet(key_of<type>), c10::dtype_or_default(dtype), format);
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

// A CPU tensor on the same memory.
at::Tensor on_host(const at::Tensor& tensor) {
  if (tensor.device().is_cpu()) return tensor;
  auto host = at::from_blob(
      tensor.mutable_data_ptr(), tensor.sizes(), tensor.strides(), at::TensorOptions().dtype(tensor.dtype()));
  if (tensor.is_conj()) host = at::_conj(host);  // the memory holds what is not conjugated, or not negated, yet
  return tensor.is_neg() ? at::_neg_view(host) : host;
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

at::Tensor& set_storage(at::Tensor& self, at::Storage source) {
  const auto elements = static_cast<int64_t>(source.nbytes() / self.dtype().itemsize());
  return self.set_(std::move(source), 0, elements, {});
}

at::Scalar item(const at::Tensor& self) { return on_host(self).item(); }

void on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) { at::native::cpu_fallback(op, stack); }

// Convolution chooses a backend that is missing here. The CPU computes the values; the backend determines the strides.
at::Tensor convolution(
    const at::Tensor& input, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
    c10::SymIntArrayRef stride, c10::SymIntArrayRef padding, c10::SymIntArrayRef dilation, bool transposed, c10::SymIntArrayRef output_padding,
    c10::SymInt groups) {
  const auto backend = at::native::select_conv_backend(
      input, weight, bias, stride, padding, dilation, transposed, output_padding, groups, at::OptionalSymIntArrayRef());
  const bool flat = weight.dim() == 3 && !input.is_xpu();
  const auto format = flat
      ? at::native::_determine_backend_memory_format(input.contiguous().unsqueeze(2), weight.unsqueeze(2), backend)
      : at::native::_determine_backend_memory_format(input, weight, backend);
  const auto biased = bias && bias->defined() ? std::optional(on_host(*bias)) : std::nullopt;
  const auto result = at::convolution_symint(
      on_host(input), on_host(weight), biased, stride, padding, dilation, transposed, output_padding, groups);
  const auto laid_out = result.dim() == 3 && format != at::MemoryFormat::Contiguous
      ? result.unsqueeze(2).contiguous(format).squeeze(2)
      : result.contiguous(format);
  return laid_out.to(input.device());
}

// Operators that cuDNN implements: PyTorch's choice of cuDNN, and the results, computed by the CPU's operators.
bool cudnn_ctc(
    const at::Tensor& log_probs, const at::Tensor& targets, at::IntArrayRef inputs, at::IntArrayRef lengths,
    int64_t blank) {
  if (pretend_is_rocm || !at::globalContext().userEnabledCuDNN() || blank != 0 || targets.dim() != 1 || log_probs.dim() != 3 ||
      log_probs.scalar_type() != at::kFloat || targets.scalar_type() != at::kInt || !log_probs.is_cuda()) {
    return false;
  }
  for (size_t i = 0; i < lengths.size(); ++i) {
    if (lengths[i] >= 256 || lengths[i] > inputs[i]) return false;
  }
  return true;
}

bool use_cudnn_ctc_loss(
    const at::Tensor& log_probs, const at::Tensor& targets, at::IntArrayRef inputs, at::IntArrayRef lengths,
    int64_t blank) {
  for (const auto length : inputs) {
    if (length != log_probs.size(0)) return false;
  }
  return targets.is_cpu() && cudnn_ctc(log_probs, targets, inputs, lengths, blank);
}

bool use_cudnn_ctc_loss_tensor(
    const at::Tensor& log_probs, const at::Tensor& targets, const at::Tensor& inputs, const at::Tensor& lengths,
    int64_t blank) {
  const auto in = on_host(inputs).to(at::kLong).contiguous(), to = on_host(lengths).to(at::kLong).contiguous();
  return targets.is_cuda() && targets.is_contiguous() &&
      cudnn_ctc(
             log_probs, targets, {in.const_data_ptr<int64_t>(), static_cast<size_t>(in.numel())},
             {to.const_data_ptr<int64_t>(), static_cast<size_t>(to.numel())}, blank);
}

bool no_ctc_loss(const at::Tensor&, const at::Tensor&, at::IntArrayRef, at::IntArrayRef, int64_t) { return false; }

bool no_ctc_loss_tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&, int64_t) {
  return false;
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> cudnn_batch_norm(
    const at::Tensor& input, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
    const std::optional<at::Tensor>& mean, const std::optional<at::Tensor>& var, bool training, double factor,
    double epsilon) {
  auto [out, save_mean, save_invstd] =
      at::native_batch_norm(input, weight, bias, mean, var, training, factor, epsilon);
  return {out, save_mean, save_invstd, at::empty({0}, input.options().dtype(at::kByte))};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> cudnn_batch_norm_backward(
    const at::Tensor& input, const at::Tensor& grad, const at::Tensor& weight, const std::optional<at::Tensor>& mean,
    const std::optional<at::Tensor>& var, const std::optional<at::Tensor>& save_mean,
    const std::optional<at::Tensor>& save_var, double epsilon, const at::Tensor&) {
  return at::native_batch_norm_backward(
      grad, input, weight, mean, var, save_mean, save_var, true, epsilon, {true, true, true});
}

// The same of MIOpen, for ROCm.
std::tuple<at::Tensor, at::Tensor, at::Tensor> miopen_batch_norm(
    const at::Tensor& input, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
    const std::optional<at::Tensor>& mean, const std::optional<at::Tensor>& var, bool training, double factor,
    double epsilon) {
  return at::native_batch_norm(input, weight, bias, mean, var, training, factor, epsilon);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> miopen_batch_norm_backward(
    const at::Tensor& input, const at::Tensor& grad, const at::Tensor& weight, const std::optional<at::Tensor>& mean,
    const std::optional<at::Tensor>& var, const std::optional<at::Tensor>& save_mean,
    const std::optional<at::Tensor>& save_var, double epsilon) {
  return at::native_batch_norm_backward(
      grad, input, weight, mean, var, save_mean, save_var, true, epsilon, {true, true, true});
}

at::Tensor cudnn_grid_sampler(const at::Tensor& input, const at::Tensor& grid) {
  return at::grid_sampler_2d(input, grid, 0, 0, true);
}

std::tuple<at::Tensor, at::Tensor> cudnn_grid_sampler_backward(
    const at::Tensor& input, const at::Tensor& grid, const at::Tensor& grad) {
  return at::grid_sampler_2d_backward(grad, input, grid, 0, 0, true, {true, true});
}

// GPUs have fused kernels for the cells of recurrent layers, and CPUs have none. The workspaces are laid out as PyTorch's.
using MaybeTensor = std::optional<at::Tensor>;

at::Tensor sigmoid_backward(const at::Tensor& output) { return output * (1 - output); }

at::Tensor with_bias(const at::Tensor& gates, const MaybeTensor& bias) {
  return bias && bias->defined() ? gates + *bias : gates;
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm_cell(
    const at::Tensor& of_input, const at::Tensor& of_hidden, const at::Tensor& cx, const MaybeTensor& input_bias,
    const MaybeTensor& hidden_bias) {
  auto gates = (with_bias(of_input, input_bias) + with_bias(of_hidden, hidden_bias)).chunk(4, 1);
  auto in = gates[0].sigmoid(), forget = gates[1].sigmoid(), cell = gates[2].tanh(), out = gates[3].sigmoid();
  auto cy = forget * cx + in * cell;
  return {out * cy.tanh(), cy, at::cat({in, forget, cell, out}, 1)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm_cell_backward(
    const MaybeTensor& grad_hy, const MaybeTensor& grad_cy, const at::Tensor& cx, const at::Tensor& cy,
    const at::Tensor& workspace, bool has_bias) {
  auto gates = workspace.chunk(4, 1);
  auto &in = gates[0], &forget = gates[1], &cell = gates[2], &out = gates[3];
  auto of_hidden = grad_hy && grad_hy->defined() ? *grad_hy : at::zeros_like(cx);
  auto tanh = cy.tanh();
  auto of_cell = of_hidden * out * (1 - tanh * tanh);
  if (grad_cy && grad_cy->defined()) of_cell = of_cell + *grad_cy;
  auto grad = at::cat(
      {of_cell * cell * sigmoid_backward(in), of_cell * cx * sigmoid_backward(forget), of_cell * in * (1 - cell * cell),
       of_hidden * tanh * sigmoid_backward(out)},
      1);
  return {grad, of_cell * forget, has_bias ? grad.sum(0) : at::Tensor()};
}

std::tuple<at::Tensor, at::Tensor> gru_cell(
    const at::Tensor& of_input, const at::Tensor& of_hidden, const at::Tensor& hx, const MaybeTensor& input_bias,
    const MaybeTensor& hidden_bias) {
  auto inputs = with_bias(of_input, input_bias).chunk(3, 1), hidden = with_bias(of_hidden, hidden_bias).chunk(3, 1);
  auto reset = (inputs[0] + hidden[0]).sigmoid(), update = (inputs[1] + hidden[1]).sigmoid();
  auto fresh = (inputs[2] + reset * hidden[2]).tanh();
  return {fresh + update * (hx - fresh), at::cat({reset, update, fresh, hx, hidden[2]}, 1)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> gru_cell_backward(
    const at::Tensor& grad_hy, const at::Tensor& workspace, bool has_bias) {
  auto saved = workspace.chunk(5, 1);
  auto &reset = saved[0], &update = saved[1], &fresh = saved[2], &hx = saved[3], &hidden = saved[4];
  auto of_update = grad_hy * (hx - fresh) * sigmoid_backward(update);
  auto of_fresh = grad_hy * (1 - update) * (1 - fresh * fresh);
  auto of_reset = of_fresh * hidden * sigmoid_backward(reset);
  auto of_inputs = at::cat({of_reset, of_update, of_fresh}, 1);
  auto of_hidden = at::cat({of_reset, of_update, of_fresh * reset}, 1);
  return {of_inputs, of_hidden, grad_hy * update, has_bias ? of_inputs.sum(0) : at::Tensor(),
          has_bias ? of_hidden.sum(0) : at::Tensor()};
}

// PyTorch warns that kernels are replaced. That is intended.
struct Silent final : c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

// The registrations last as long as the process, so the libraries are never deleted.
template <c10::DeviceType type>
void install(const char* const* names, int count) {
  constexpr auto key = key_of<type>;
  Silent silent;
  c10::WarningUtils::WarningHandlerGuard guard(&silent);
  auto* others = new torch::Library(torch::Library::IMPL, "_", key, __FILE__, __LINE__);
  others->fallback(torch::CppFunction::makeFromBoxedFunction<&on_cpu>());
  auto* aten = new torch::Library(torch::Library::IMPL, "aten", key, __FILE__, __LINE__);
  for (int i = 0; i < count; ++i) aten->impl(names[i], torch::CppFunction::makeFromBoxedFunction<&on_cpu>());
  // PyTorch decomposes these for devices without a kernel, so a build without the device needs one. xpu has
  // _fused_rms_norm from 2.12 on (unconfirmed).
  for (const auto* whole : {"mish_backward", "silu_backward"}) {
    aten->impl(whole, torch::CppFunction::makeFromBoxedFunction<&on_cpu>());
  }
  if (type == c10::DeviceType::CUDA || TORCH_VERSION_MINOR >= 12) {
    aten->impl("_fused_rms_norm", torch::CppFunction::makeFromBoxedFunction<&on_cpu>());
  }
  // Operators that create or copy tensors, or make views.
  aten->impl("empty.memory_format", TORCH_FN((empty<type>)));
  aten->impl("empty_strided", TORCH_FN((empty_strided<type>)));
  aten->impl("copy_", TORCH_FN(copy_));
  aten->impl("_copy_from", TORCH_FN(copy_from));
  aten->impl("_copy_from_and_resize", TORCH_FN(copy_from_and_resize));
  aten->impl("_local_scalar_dense", TORCH_FN(item));
  aten->impl("resize_", TORCH_FN(at::native::resize_));
  aten->impl("set_.source_Storage", TORCH_FN(set_storage));
  aten->impl("set_.source_Storage_storage_offset", TORCH_FN(at::native::set_storage_cpu_));
  aten->impl("as_strided", TORCH_FN(at::native::as_strided_tensorimpl));
  aten->impl("view", TORCH_FN(at::native::view));
  aten->impl("_reshape_alias", TORCH_FN(at::native::_reshape_alias));
  aten->impl("unfold", TORCH_FN(at::native::unfold));
  aten->impl("view_as_real", TORCH_FN(at::native::view_as_real));
  aten->impl("view_as_complex", TORCH_FN(at::native::view_as_complex));
  aten->impl("_thnn_fused_lstm_cell", TORCH_FN(lstm_cell));
  aten->impl("_thnn_fused_lstm_cell_backward_impl", TORCH_FN(lstm_cell_backward));
  aten->impl("_thnn_fused_gru_cell", TORCH_FN(gru_cell));
  aten->impl("_thnn_fused_gru_cell_backward", TORCH_FN(gru_cell_backward));
  aten->impl("convolution", TORCH_FN(convolution));
  aten->impl("convolution_backward", torch::CppFunction::makeFromBoxedFunction<&on_cpu>());
  if constexpr (type == c10::DeviceType::CUDA) {
    aten->impl("_use_cudnn_ctc_loss", TORCH_FN(use_cudnn_ctc_loss));
    aten->impl("_use_cudnn_ctc_loss.Tensor", TORCH_FN(use_cudnn_ctc_loss_tensor));
    aten->impl("_use_miopen_ctc_loss", TORCH_FN(no_ctc_loss));  // from 2.13
    aten->impl("_use_miopen_ctc_loss.Tensor", TORCH_FN(no_ctc_loss_tensor));
    aten->impl("cudnn_batch_norm", TORCH_FN(cudnn_batch_norm));
    aten->impl("cudnn_batch_norm_backward", TORCH_FN(cudnn_batch_norm_backward));
    aten->impl("miopen_batch_norm", TORCH_FN(miopen_batch_norm));
    aten->impl("miopen_batch_norm_backward", TORCH_FN(miopen_batch_norm_backward));
    aten->impl("cudnn_grid_sampler", TORCH_FN(cudnn_grid_sampler));
    aten->impl("cudnn_grid_sampler_backward", TORCH_FN(cudnn_grid_sampler_backward));
  }
}

}  // namespace

extern "C" void pretend_memory(bool memory) { has_memory = memory; }

// `device`: 1 cuda, 2 xpu, 4 mps. `names`: the aten operators that have a kernel for the device, without those above.
extern "C" void pretend_kernels(int device, const char* const* names, int count) {
  if (device == 1) {
    install<c10::DeviceType::CUDA>(names, count);
  } else if (device == 2) {
    install<c10::DeviceType::XPU>(names, count);
  } else {
    install<c10::DeviceType::MPS>(names, count);
  }
}
