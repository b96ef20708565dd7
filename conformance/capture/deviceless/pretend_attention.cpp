// Chooses the implementation of scaled dot product attention on a pretended device, as PyTorch does on the real one.
//
// PyTorch makes this choice in C++ code that is built for the device. A build without cuda has no such code and takes
// math. A build with cuda asks the driver. Only Intel's build has the code for xpu. So this file makes the choice, for
// the capability and the cuDNN version of the target. It uses the checks that every build ships in
// ATen/native/transformers/sdp_utils_cpp.h, and repeats the device's own checks.
//
// Sources, by version:
//   cuda  aten/src/ATen/native/transformers/cuda/sdp_utils.cpp. 2.11 and 2.15: compared with the code in
//         libtorch_cuda.so, called with a made-up capability: both agree. 2.12 to 2.14: only the source was read.
//   rocm  the same file, as a build for ROCm compiles it: only the source was read, of 2.14 or later. AOTriton has the
//         kernels; it supports gfx942 and gfx950.
//   mps   aten/src/ATen/native/transformers/attention.cpp, as a build for macOS compiles it: unconfirmed on a device.
//   xpu   aten/src/ATen/native/mkldnn/xpu/Attention.cpp and .../transformers/xpu/sdp_utils.cpp: only the source was
//         read.
// Nested tensors of strided layout are not handled: there are no fake ones.
#include <ATen/Context.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/native/transformers/sdp_utils_cpp.h>
#include <ATen/ops/_scaled_dot_product_attention_math.h>
#include <ATen/ops/_scaled_dot_product_attention_math_for_mps.h>
#include <ATen/ops/_scaled_dot_product_flash_attention.h>
#include <ATen/ops/_scaled_dot_product_fused_attention_overrideable.h>
#include <ATen/ops/pad.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/scaled_dot_product_attention_native.h>
#include <ATen/ops/where.h>
#include <c10/core/SymBool.h>
#include <c10/util/env.h>
#include <torch/library.h>
#include <torch/version.h>

#include <cmath>
#include <initializer_list>
#include <limits>

// For what PyTorch does. What PyTorch has, by name or arguments, is asked with `requires`: a release may lack it.
#define TORCH_AT_LEAST(minor) (TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= (minor))

extern long pretend_choices;  // pretend_device.cpp
extern bool pretend_is_rocm;

namespace {

using at::SDPBackend;
using at::Tensor;
using sdp::sdp_params;
using Check = bool (*)(const sdp_params&, bool);

enum Pretended { nothing = 0, cuda = 1, xpu = 2, mps = 4 };  // as in pretend_device.cpp

struct Target {
  int device = nothing;
  int capability = 0;  // cuda: 90 for (9, 0). xpu: not 0 if the device has a flash attention kernel
  long cudnn = 0;      // 91900 for 9.19.0
} target;

int major() { return target.capability / 10; }
bool between(int low, int high) { return low <= target.capability && target.capability <= high; }

// A condition on sizes that may be symbolic. Since 2.14, an unknown condition is false instead of an error.
bool known(const c10::SymBool& condition) {
#if TORCH_AT_LEAST(14)
  return TORCH_GUARD_OR_FALSE(condition);
#else
  return condition.guard_bool(__FILE__, __LINE__);
#endif
}
bool multiple(const c10::SymInt& size, int64_t of) { return known((size % of).sym_eq(0)); }

c10::SymInt head(const Tensor& tensor) { return tensor.sym_size(-1); }
c10::SymInt length(const Tensor& tensor) { return tensor.sym_size(-2); }

bool has_dtype(const sdp_params& p, std::initializer_list<at::ScalarType> allowed) {
  const auto dtype = p.query.scalar_type();
  return dtype == p.key.scalar_type() && dtype == p.value.scalar_type() &&
      std::find(allowed.begin(), allowed.end(), dtype) != allowed.end();
}

bool half_precision(const sdp_params& p, bool) {
  return major() >= 8 ? has_dtype(p, {at::kHalf, at::kBFloat16}) : has_dtype(p, {at::kHalf});
}

bool all(const sdp_params& p, std::initializer_list<Check> checks) {
  for (const auto check : checks) {
    if (!check(p, false)) return false;
  }
  return true;
}

// PyTorch's check of the heads. Where it has a third parameter, one head of keys and values may serve several heads of queries,
// and every implementation of cuda supports that.
template <bool same_heads, bool efficient>
constexpr Check heads() {
  if constexpr (requires { &sdp::check_batch_size_and_num_heads_dense<true, same_heads, true>; }) {
    return sdp::check_batch_size_and_num_heads_dense<true, same_heads, true>;
  } else {
    return sdp::check_batch_size_and_num_heads_dense<!efficient, same_heads>;
  }
}
constexpr auto heads_same_kv = heads<true, false>();
constexpr auto heads_any_kv = heads<false, false>();
constexpr auto heads_efficient = heads<true, true>();
constexpr auto rocm_heads_efficient = sdp::check_batch_size_and_num_heads_dense<false>;

// PyTorch's causal mask is aligned to the top left, the flash kernels' mask to the bottom right. They are equal only if
// the mask is square.
bool square_if_causal(const sdp_params& p, bool) {
  return !p.is_causal || known(length(p.query).sym_eq(length(p.key)));
}

// ---- cuda ----

bool small_grid(const sdp_params& p) {
  return known(p.query.sym_size(0).sym_le(65535)) && known(p.query.sym_size(1).sym_le(65535));
}
bool flash_grid(const sdp_params& p, bool) { return !TORCH_AT_LEAST(14) || small_grid(p); }
bool cudnn_grid(const sdp_params& p, bool) { return !TORCH_AT_LEAST(12) || small_grid(p); }

template <int64_t most>
bool heads_equal(const sdp_params& p, bool) {
  return known(head(p.query).sym_eq(head(p.key))) && known(head(p.query).sym_eq(head(p.value))) &&
      known(head(p.query).sym_le(most));
}

bool flash_device(const sdp_params&, bool) { return between(80, 121); }

// The backward kernel needs more shared memory than sm86 to sm89, sm120 and sm121 have.
bool flash_backward_fits(const sdp_params& p, bool) {
  const bool small = between(86, 89) || between(120, 121);
#if TORCH_AT_LEAST(14)
  if (!sdp::input_requires_grad(p) || !small) return true;
#endif
  // Before 2.14, PyTorch always compares the sizes, so the comparison becomes a guard of a dynamic size.
  const bool fits = known(head(p.query).sym_le(192)) || (known(head(p.query).sym_gt(224)) && p.dropout <= 0.0);
  return fits || !sdp::input_requires_grad(p) || !small;
}

bool flash_dtype(const sdp_params& p, bool debug) {
  if (major() >= 9 && at::globalContext().userEnabledFA3SDP()) {
    return has_dtype(p, {at::kFloat8_e4m3fn, at::kHalf, at::kBFloat16});
  }
  return half_precision(p, debug);
}

template <typename Context>
bool enabled_version_4(const Context& context) {
  if constexpr (requires { context.userEnabledFA4SDP(); }) return context.userEnabledFA4SDP();
  return false;
}

bool flash_version_4(const sdp_params& p, bool) {
  return !enabled_version_4(at::globalContext()) || ((major() == 9 || major() == 10) && p.dropout == 0.0);
}

bool can_flash(const sdp_params& p) {
  return all(p, {sdp::check_runtime_disabled_flash, sdp::check_tensor_shapes, sdp::check_for_attn_mask,
                 flash_version_4, heads_equal<256>, flash_device, flash_backward_fits, square_if_causal,
                 flash_dtype, heads_same_kv, sdp::check_nonzero_sequence_lengths_dense,
                 sdp::check_last_dim_stride_equals_1_dense<true>, flash_grid});
}

// How many elements the matrix product kernels load at once.
int64_t alignment(const sdp_params& p) {
  const bool half = p.query.scalar_type() == at::kHalf || p.query.scalar_type() == at::kBFloat16;
  const bool tensor_cores = major() >= 8 || (major() == 7 && half);
  return std::max<int64_t>(major() >= 8 ? 4 : 1, tensor_cores ? 128 / (half ? 16 : 32) : 1);
}

bool efficient_heads(const sdp_params& p, bool) {
  const auto each = alignment(p);
  return known(head(p.query).sym_eq(head(p.key))) && multiple(head(p.query), each) && known(head(p.query).sym_gt(0)) &&
      multiple(head(p.value), each) && known(head(p.value).sym_gt(0));
}

bool efficient_device(const sdp_params&, bool) { return between(50, 121); }

bool efficient_pointers(const sdp_params& p, bool) {
#if TORCH_AT_LEAST(14)
  if (major() < 8) return true;
  const int64_t each = alignment(p) * static_cast<int64_t>(p.query.element_size());
  for (const auto& tensor : {p.query, p.key, p.value}) {
    const auto offset = tensor.sym_storage_offset() * static_cast<int64_t>(tensor.element_size());
    if (!known(tensor.sym_numel().sym_eq(0)) && !TORCH_GUARD_OR_TRUE((offset % each).sym_eq(0))) return false;
  }
#endif
  return true;
}

bool efficient_dtype(const sdp_params& p, bool) {
  return major() >= 8 ? has_dtype(p, {at::kHalf, at::kFloat, at::kBFloat16}) : has_dtype(p, {at::kHalf, at::kFloat});
}

bool can_efficient(const sdp_params& p) {
  return all(p, {sdp::check_runtime_disabled_mem_efficient, efficient_device, sdp::check_tensor_shapes,
                 efficient_heads, efficient_pointers, sdp::check_nonzero_sequence_lengths_dense,
                 sdp::check_last_dim_stride_equals_1_dense<false>, heads_efficient, efficient_dtype});
}

// ---- rocm: AOTriton has both kernels ----

bool can_rocm_flash(const sdp_params& p) {
  return all(p, {sdp::check_runtime_disabled_flash, sdp::check_tensor_shapes, sdp::check_for_attn_mask,
                 heads_equal<512>, square_if_causal, half_precision, heads_same_kv,
                 sdp::check_nonzero_sequence_lengths_dense, sdp::check_last_dim_stride_equals_1_dense<true>});
}

// AOTriton of torch 2.14 supports values of another size than queries and keys (unconfirmed: since which torch).
bool rocm_efficient_heads(const sdp_params& p, bool) {
  const auto each = p.query.scalar_type() == at::kHalf || p.query.scalar_type() == at::kBFloat16 ? 8 : 4;
  return known(head(p.query).sym_eq(head(p.key))) && (TORCH_AT_LEAST(14) || known(head(p.query).sym_eq(head(p.value)))) &&
      multiple(head(p.query), each) && known(head(p.query).sym_gt(0)) && multiple(head(p.value), each) &&
      known(head(p.value).sym_gt(0)) && known(head(p.query).sym_le(512)) && known(head(p.value).sym_le(512));
}

bool rocm_mask(const sdp_params& p, bool) {
  return !p.attn_mask.has_value() || p.attn_mask->scalar_type() == at::kBool ||
      p.attn_mask->scalar_type() == p.query.scalar_type();
}

bool can_rocm_efficient(const sdp_params& p) {
  return all(p, {sdp::check_runtime_disabled_mem_efficient, sdp::check_tensor_shapes, rocm_efficient_heads,
                 sdp::check_nonzero_sequence_lengths_dense, sdp::check_last_dim_stride_equals_1_dense<false>,
                 rocm_heads_efficient, rocm_mask}) &&
      has_dtype(p, {at::kHalf, at::kFloat, at::kBFloat16});
}

// ---- cuda: cuDNN ----

bool cudnn_enabled(const sdp_params&, bool) { return at::globalContext().userEnabledCuDNNSDP(); }

bool cudnn_may_vary(const sdp_params&, bool) {
  const auto& context = at::globalContext();
  return !context.deterministicAlgorithms() || context.deterministicAlgorithmsWarnOnly();
}

bool cudnn_dropout(const sdp_params& p, bool) {
  if (p.dropout > 0.0 && target.cudnn > 91100 && target.cudnn < 91400) return false;
#if TORCH_AT_LEAST(12)
  return p.dropout * 16.0 == std::floor(p.dropout * 16.0);
#else
  return true;
#endif
}

// Whether cuDNN has kernels for heads of up to 256. Before torch 2.14: on Hopper from cuDNN 9.10 on.
bool cudnn_wide_heads() {
#if TORCH_AT_LEAST(14)
  const bool late = target.capability == 107 && target.cudnn <= 92500;
  return target.cudnn > 92200 && (target.capability == 90 || major() == 10) && !late;
#else
  return target.cudnn >= 91000 && target.capability == 90;
#endif
}

// Excludes cuDNN releases with wrong gradients or wrong decoding. PyTorch checks this since 2.14.
bool cudnn_sound(const sdp_params& p, bool) {
#if TORCH_AT_LEAST(14)
  const auto q = p.query.sym_size(2), k = p.key.sym_size(2);
  if (target.cudnn < 92600 && target.capability == 90 && !p.is_causal && p.query.requires_grad() && k % 128 == 64) {
    return false;
  }
  const bool decodes_wrong = target.cudnn >= 91900 && target.cudnn <= 92500 &&
      !(target.cudnn > 92400 && target.cudnn < 92500) && (major() == 10 || major() == 11);
  if (decodes_wrong && known(q.sym_eq(1))) return false;
#endif
  return true;
}

bool cudnn_heads(const sdp_params& p, bool) {
  const auto qk = p.query.sym_size(3), v = p.value.sym_size(3);
  int64_t limit = 128;
  if (cudnn_wide_heads()) {
    limit = 256;
  } else if (
      target.cudnn >= 91100 && (major() == 10 || (TORCH_AT_LEAST(14) && target.capability == 90)) &&
      known(qk.sym_eq(192)) && known(v.sym_eq(128))) {
    limit = 192;
  }
  return known(qk.sym_le(limit)) && known(v.sym_le(limit)) && multiple(qk, 8) && multiple(v, 8);
}

bool cudnn_lengths(const sdp_params& p, bool) {
  const auto q = p.query.sym_size(2), k = p.key.sym_size(2);
#if TORCH_AT_LEAST(14)
  return known(k.sym_ne(1)) && (p.dropout == 0.0 || known(q.sym_ne(1)));
#else
  return known(k.sym_ne(1)) && (known(q.sym_ne(1)) || p.dropout == 0.0);
#endif
}

bool cudnn_backward(const sdp_params& p, bool) {
#if TORCH_AT_LEAST(14)
  if (cudnn_wide_heads() && sdp::input_requires_grad(p)) {
    const auto qk = p.query.sym_size(3), v = p.value.sym_size(3);
    const auto are = [&](int64_t a, int64_t b) { return known(qk.sym_eq(a)) && known(v.sym_eq(b)); };
    return (known(qk.sym_le(128)) && known(v.sym_le(128))) || are(192, 128) || are(256, 256);
  }
#endif
  return true;
}

bool can_cudnn(const sdp_params& p) {
  TORCH_CHECK(target.cudnn >= 90000, "pretend_attention: cuDNN ", target.cudnn, "; 9.0.0 (90000) and newer are known");
  return all(p, {cudnn_dropout, cudnn_enabled, sdp::check_tensor_shapes, cudnn_may_vary, half_precision,
                 sdp::check_attn_mask_shape, flash_device, sdp::check_nonzero_sequence_lengths_dense,
                 sdp::check_last_dim_stride_equals_1_dense<true>, heads_any_kv, cudnn_grid, cudnn_sound,
                 cudnn_heads, cudnn_lengths, cudnn_backward});
}

// The cuDNN version that torch's wheels for CUDA require.
constexpr long bundled_cudnn =
    TORCH_AT_LEAST(15) ? 92600 : TORCH_AT_LEAST(14) ? 92400 : TORCH_AT_LEAST(12) ? 92000 : 91900;

bool prefers_cudnn() {
  if (pretend_is_rocm || c10::utils::check_env("TORCH_CUDNN_SDPA_DEPRIORITIZED") == true || target.cudnn <= 91500) {
    return false;
  }
#if TORCH_AT_LEAST(14)
  return major() == 9 || major() == 10;  // in a build with CUDA 13
#else
  return between(90, 109) && (target.capability % 10 == 0 || target.capability % 10 == 3);
#endif
}

// ---- xpu ----

bool xpu_oneDNN_heads(const sdp_params& p, bool) {
  return known(head(p.query).sym_eq(head(p.key))) && known(head(p.query).max(head(p.value)).sym_le(576));
}

bool without_gradient(const sdp_params& p, bool) { return !sdp::input_requires_grad(p); }

bool can_overrideable(const sdp_params& p) {
  return all(p, {sdp::check_for_dropout, sdp::check_tensor_shapes, heads_same_kv, sdp::check_attn_mask_shape,
                 sdp::check_nonzero_sequence_lengths_dense,
                 sdp::check_last_dim_stride_equals_1_dense<false>, xpu_oneDNN_heads, without_gradient}) &&
      has_dtype(p, {at::kFloat, at::kBFloat16, at::kHalf});
}

bool can_xpu_flash(const sdp_params& p) {
  return target.capability != 0 && !at::globalContext().deterministicAlgorithms() &&
      all(p, {sdp::check_for_attn_mask, sdp::check_for_dropout, sdp::check_tensor_shapes, heads_same_kv,
                 sdp::check_nonzero_sequence_lengths_dense,
                 sdp::check_last_dim_stride_equals_1_dense<TORCH_AT_LEAST(14)>, square_if_causal}) &&
      has_dtype(p, {at::kBFloat16, at::kHalf}) && heads_equal<192>(p, false);
}

// If a user allows only the memory-efficient implementation, Intel's build takes math.
bool xpu_efficient_means_math(const sdp_params& p) {
  const int64_t each = p.query.scalar_type() == at::kHalf || p.query.scalar_type() == at::kBFloat16 ? 8 : 4;
  return all(p, {sdp::check_runtime_disabled_mem_efficient, sdp::check_tensor_shapes,
                 sdp::check_nonzero_sequence_lengths_dense,
                 sdp::check_last_dim_stride_equals_1_dense<false>,
                 sdp::check_batch_size_and_num_heads_dense<false>}) &&
      known(head(p.query).sym_eq(head(p.key))) && multiple(head(p.query), each) && multiple(head(p.value), each);
}

// ---- the choice ----

bool usable(SDPBackend backend, const sdp_params& p) {
  auto& context = at::globalContext();
  switch (backend) {
    case SDPBackend::math: return context.userEnabledMathSDP();
    case SDPBackend::cudnn_attention: return target.device == cuda && !pretend_is_rocm && can_cudnn(p);
    case SDPBackend::efficient_attention:
      return target.device == cuda && (pretend_is_rocm ? can_rocm_efficient(p) : can_efficient(p));
    case SDPBackend::overrideable:
      return target.device == xpu && context.userEnabledOverrideableSDP() && can_overrideable(p);
    case SDPBackend::flash_attention:
      if (target.device == cuda) return pretend_is_rocm ? can_rocm_flash(p) : can_flash(p);
      return context.userEnabledFlashSDP() && can_xpu_flash(p);
    default: return false;
  }
}

int64_t choose(
    const Tensor& query, const Tensor& key, const Tensor& value, const std::optional<Tensor>& mask, double dropout,
    bool causal, std::optional<double>, bool grouped) {
  ++pretend_choices;
  const sdp_params p{query, key, value, mask, dropout, causal, grouped};
  TORCH_CHECK(sdp::has_only_dense_inputs(p), "pretend_attention: nested tensors of strided layout are not handled");
  for (const auto backend : at::globalContext().sDPPriorityOrder()) {
    if (usable(backend, p)) return static_cast<int64_t>(backend);
    if (target.device == xpu && backend == SDPBackend::efficient_attention && xpu_efficient_means_math(p)) {
      return static_cast<int64_t>(SDPBackend::math);
    }
  }
  TORCH_CHECK(false, "No available kernel. Aborting execution.");
}

// The inputs with a batch dimension, on a torch that adds one. The name is found by its argument: a name that PyTorch
// does not have may not be qualified.
template <typename Params>
Params with_batch(const Params& params) {
  if constexpr (requires { normalize_unbatched_input(params); }) return normalize_unbatched_input(params);
  return params;
}

// Metal's attention, which takes `grouped` on some versions of PyTorch.
template <typename... Options>
Tensor attention_for_mps(bool grouped, const Options&... options) {
  if constexpr (requires { at::_scaled_dot_product_attention_math_for_mps(options..., grouped); }) {
    return std::get<0>(at::_scaled_dot_product_attention_math_for_mps(options..., grouped));
  } else {
    return std::get<0>(at::_scaled_dot_product_attention_math_for_mps(options...));
  }
}

// What PyTorch's attention.cpp does on xpu and mps. In a build without them, PyTorch's own function fails an assertion.
Tensor attention(
    const Tensor& query, const Tensor& key, const Tensor& value, const std::optional<Tensor>& mask, double dropout,
    bool causal, std::optional<double> scale, bool grouped) {
  const bool same = query.dtype() == key.dtype() && query.dtype() == value.dtype() && query.device() == key.device() &&
      query.device() == value.device() && query.dim() >= 2 && key.dim() >= 2 && value.dim() >= 2;
  const bool mask_fits = !mask || mask->scalar_type() == at::kBool || mask->scalar_type() == at::kFloat ||
      mask->dtype() == query.dtype();
  const bool here = (target.device == xpu && query.is_xpu()) || (target.device == mps && query.is_mps());
  bool elsewhere = !here || !same || !mask_fits;  // PyTorch raises its error
#if TORCH_AT_LEAST(12)
  for (const auto& tensor : {query, key, value}) {  // PyTorch returns zeros without a choice
    elsewhere = elsewhere || TORCH_GUARD_OR_FALSE(tensor.sym_numel().sym_eq(0));
  }
#endif
  if (elsewhere) {
    return at::native::scaled_dot_product_attention(query, key, value, mask, dropout, causal, scale, grouped);
  }
  const auto batched = with_batch(sdp_params{query, key, value, mask, dropout, causal, grouped});
  if (!batched.query.is_same(query)) {
    return attention(batched.query, batched.key, batched.value, batched.attn_mask, dropout, causal, scale, grouped)
        .squeeze(0);
  }
  const auto backend = target.device == mps
      ? SDPBackend::math
      : static_cast<SDPBackend>(choose(query, key, value, mask, dropout, causal, scale, grouped));
  auto bias = mask;
  if (mask && mask->scalar_type() == at::kBool) {
    constexpr double removed = -std::numeric_limits<double>::infinity();
    bias = at::where(*mask, 0.0, at::scalar_tensor(removed, query.options().device(mask->device())));
  }
  if (backend == SDPBackend::flash_attention) {
    const auto padded = [](const Tensor& tensor) {
      const auto size = head(tensor);
      return size % 64 == 0 ? tensor : at::pad_symint(tensor, {c10::SymInt(0), 64 - size % 64});
    };
    const auto size = head(query);
    const auto factor = sdp::calculate_scale(query, scale).guard_float(__FILE__, __LINE__);
    const auto out = std::get<0>(at::_scaled_dot_product_flash_attention(
        padded(query), padded(key), padded(value), dropout, causal, false, factor));
    return head(out) == size ? out : out.slice_symint(-1, 0, size);
  }
  if (backend == SDPBackend::overrideable) {
    return std::get<0>(at::_scaled_dot_product_fused_attention_overrideable(
        query, key, value, bias, dropout, causal, false, scale));
  }
  const bool learns = query.requires_grad() || key.requires_grad() || value.requires_grad();
  if (target.device == mps && dropout == 0.0 && !(at::GradMode::is_enabled() && learns)) {
    return attention_for_mps(grouped, query, key, value, bias, dropout, causal, std::nullopt, scale);
  }
  return std::get<0>(at::_scaled_dot_product_attention_math(
      query, key, value, bias, dropout, causal, std::nullopt, scale, grouped));
}

void override_composite() {
  static std::unique_ptr<torch::Library> library;
  if (library) return;
  struct Silent : c10::WarningHandler {  // PyTorch warns that a kernel is overridden, which is intended
    void process(const c10::Warning&) override {}
  } silent;
  c10::WarningUtils::WarningHandlerGuard guard(&silent);
  library = std::make_unique<torch::Library>(
      torch::Library::IMPL, "aten", c10::DispatchKey::CompositeImplicitAutograd, __FILE__, __LINE__);
  library->impl("scaled_dot_product_attention", attention);
}

}  // namespace

// From now on, attention is chosen as on `device` (a `Pretended` value; 0 for none). Call it after torch is imported,
// and not for a device that is on the machine. It sets PyTorch's initial order of preference for that device, so later
// changes by the user count. (On a real 9.0 or 10.x, PyTorch sets the order at the first choice of the process, which
// undoes an order that the user set before.)
//
// major, minor: cuda: the capability. xpu: 1, 0 if Intel's flash attention kernels run there (Linux; Data Center GPU
//               Max, Arc B series), else 0, 0.
// cudnn: cuda: the version like torch.backends.cudnn.version() (91900 for 9.19.0); 0 for the version in torch's wheels.
//        Before torch 2.14, all versions from 9.16 on lead to the same choices. Returns the version.
extern "C" long pretend_attention(int device, int major, int minor, long cudnn) {
  static std::vector<SDPBackend> before;  // the order while nothing is pretended, such as that of a real device
  if (target.device == 0) {
    const auto now = at::globalContext().sDPPriorityOrder();
    before.assign(now.begin(), now.end());
  }
  target = {device, major * 10 + minor, cudnn == 0 ? bundled_cudnn : cudnn};
  auto order = before;
  if (device == cuda) {
    at::native::_fused_sdp_choice_stub.set_cuda_dispatch_ptr(choose);
    order = {SDPBackend::flash_attention, SDPBackend::efficient_attention, SDPBackend::math,
             SDPBackend::cudnn_attention, SDPBackend::overrideable};
    if (prefers_cudnn()) {
      order = {SDPBackend::cudnn_attention, SDPBackend::flash_attention, SDPBackend::efficient_attention,
               SDPBackend::math, SDPBackend::overrideable};
    }
  } else if (device == mps) {
    override_composite();
  } else if (device == xpu) {
    override_composite();
    order = {SDPBackend::overrideable, SDPBackend::flash_attention, SDPBackend::math, SDPBackend::efficient_attention,
             SDPBackend::cudnn_attention};
  }
  std::vector<int64_t> numbers;
  for (const auto backend : order) numbers.push_back(static_cast<int64_t>(backend));
  at::globalContext().setSDPPriorityOrder(numbers);
  return target.cudnn;
}
