// Pretends a cuda, xpu or mps device in a PyTorch build without that device type, or on a machine without the device.
//
// Operators that change the device call a guard, even under FakeTensorMode. Autograd calls the accelerator's hooks, and
// aborts the process if there are none. The guards below do nothing. The hooks report one device, of the type that is
// pretended. PyTorch looks up its hooks once, when torch is imported: `pretend_hooks` before that, or `pretend_late`
// after it. A build with cuda registers its own guards when it is loaded, so call `pretend_guards` after torch is
// imported.
// Do not use this for a device type whose device is on the machine.
#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/detail/MPSHooksInterface.h>
#include <ATen/detail/XPUHooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <cstring>

// How often C++ code has chosen something by more than the device's type. pretend_attention.cpp counts too.
long pretend_choices = 0;

// Whether the pretended cuda device is one of AMD, as in a build for ROCm. The other sources ask it too.
bool pretend_is_rocm = false;

namespace {

enum Pretended { nothing = 0, cuda = 1, xpu = 2, mps = 4 };
int pretended = nothing;
int capability = 0;  // cuda: 90 for (9, 0)
long cudnn = 0;      // cuda: 91900 for 9.19.0

// A build for ROCm has MIOpen where a build for CUDA has cuDNN.
bool with_cudnn() { return pretended == cuda && !pretend_is_rocm; }
bool with_miopen() { return pretended == cuda && pretend_is_rocm; }

template <class T>
T asked(T answer) {
  ++pretend_choices;
  return answer;
}

template <c10::DeviceType type>
struct Guard final : c10::impl::NoOpDeviceGuardImpl<type> {
  c10::Device exchangeDevice(c10::Device) const override { return {type, 0}; }
  c10::Device getDevice() const override { return {type, 0}; }
  c10::Stream getStream(c10::Device) const noexcept override { return stream(); }
  c10::Stream getNewStream(c10::Device, int = 0) const override { return stream(); }
  c10::Stream exchangeStream(c10::Stream) const noexcept override { return stream(); }
  static c10::Stream stream() { return c10::Stream(c10::Stream::DEFAULT, c10::Device(type, 0)); }
  void record(void**, const c10::Stream&, const c10::DeviceIndex, const c10::EventFlag) const override {}
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
};

struct CUDAHooks : at::CUDAHooksInterface {
  void init() const override {}
  bool isBuilt() const override { return pretended == cuda; }
  bool isAvailable() const override { return pretended == cuda; }
  bool hasCUDA() const override { return pretended == cuda; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return pretended == cuda; }
  c10::DeviceIndex deviceCount() const override { return pretended == cuda; }
  c10::DeviceIndex current_device() const override { return 0; }
  c10::DeviceIndex getCurrentDevice() const override { return 0; }
  c10::Allocator* getPinnedMemoryAllocator() const override { return c10::GetAllocator(c10::DeviceType::CPU); }
  // convolution, batch_norm, grid_sample and ctc_loss choose by these. As in aten/src/ATen/cuda/detail/CUDAHooks.cpp.
  bool hasCuDNN() const override { return with_cudnn(); }
  bool compiledWithCuDNN() const override { return with_cudnn(); }
  bool supportsDilatedConvolutionWithCuDNN() const override { return with_cudnn(); }
  bool supportsDepthwiseConvolutionWithCuDNN() const override { return with_cudnn() && asked(capability) >= 70; }
  bool supportsBFloat16ConvolutionWithCuDNNv8() const override { return with_cudnn() && asked(capability) >= 80; }
  bool supportsBFloat16RNNWithCuDNN() const override { return with_cudnn() && asked(capability) >= 80; }
  bool hasROCM() const override { return with_miopen(); }
  bool compiledWithMIOpen() const override { return with_miopen(); }
  long versionMIOpen() const override { return 30501; }  // 3.5.1, of ROCm 7: batch_norm asks for it
  long versionCuDNN() const override { return asked(cudnn); }
  long versionRuntimeCuDNN() const override { return asked(cudnn); }
  double batchnormMinEpsilonCuDNN() const override { return 0.0; }
};

struct XPUHooks : at::XPUHooksInterface {
  void init() const override {}
  bool isBuilt() const override { return pretended == xpu; }
  bool isAvailable() const override { return pretended == xpu; }
  bool hasXPU() const override { return pretended == xpu; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return pretended == xpu; }
  c10::DeviceIndex deviceCount() const override { return pretended == xpu; }
  c10::DeviceIndex current_device() const override { return 0; }
  c10::DeviceIndex getCurrentDevice() const override { return 0; }
  c10::Allocator* getPinnedMemoryAllocator() const override { return c10::GetAllocator(c10::DeviceType::CPU); }
};

struct MPSHooks : at::MPSHooksInterface {
  void init() const override {}
  bool isBuilt() const override { return pretended == mps; }
  bool isAvailable() const override { return pretended == mps; }
  bool hasMPS() const override { return pretended == mps; }
  bool isOnMacOSorNewer(unsigned, unsigned) const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return pretended == mps; }
  c10::DeviceIndex deviceCount() const override { return pretended == mps; }
  void deviceSynchronize() const override {}
  c10::Allocator* getPinnedMemoryAllocator() const override { return c10::GetAllocator(c10::DeviceType::CPU); }
};

// Registers Hooks with precedence over the build's own. The version decides whether creators take CUDAHooksArgs.
template <class Hooks, class Interface, class... Args>
void prefer(c10::Registry<std::string, std::unique_ptr<Interface>, Args...>* registry, const char* name) {
  registry->Register(
      name, [](Args...) -> std::unique_ptr<Interface> { return std::make_unique<Hooks>(); }, c10::REGISTRY_PREFERRED);
}

// Makes PyTorch's own hooks answer as Hooks do. Neither has more than a pointer to the table of its functions.
template <class Hooks, class Interface>
void overwrite(const Interface& used) {
  static_assert(sizeof(Hooks) == sizeof(void*) && sizeof(Interface) == sizeof(void*));
  static const Hooks ours{};
  std::memcpy(const_cast<void*>(static_cast<const void*>(&used)), static_cast<const void*>(&ours), sizeof(void*));
}

}  // namespace

// `devices`: the sum of the `Pretended` values to answer for.
extern "C" void pretend_hooks(int devices) {
  if (devices & cuda) prefer<CUDAHooks>(at::CUDAHooksRegistry(), "CUDAHooks");
  if (devices & xpu) prefer<XPUHooks>(at::XPUHooksRegistry(), "XPUHooks");
  if (devices & mps) prefer<MPSHooks>(at::MPSHooksRegistry(), "MPSHooks");
}

// The same where torch is imported already.
extern "C" void pretend_late(int devices) {
  if (devices & cuda) overwrite<CUDAHooks>(at::detail::getCUDAHooks());
  if (devices & xpu) overwrite<XPUHooks>(at::detail::getXPUHooks());
  if (devices & mps) overwrite<MPSHooks>(at::detail::getMPSHooks());
}

extern "C" void pretend_guards(int devices) {
  if (devices & cuda) {
    static c10::impl::DeviceGuardImplRegistrar registered(c10::DeviceType::CUDA, new Guard<c10::DeviceType::CUDA>());
  }
  if (devices & xpu) {
    static c10::impl::DeviceGuardImplRegistrar registered(c10::DeviceType::XPU, new Guard<c10::DeviceType::XPU>());
  }
  if (devices & mps) {
    static c10::impl::DeviceGuardImplRegistrar registered(c10::DeviceType::MPS, new Guard<c10::DeviceType::MPS>());
  }
}

// Sets the device that the hooks answer for from now on. major, minor, cudnn_version: for cuda.
extern "C" void pretend(int device, int major, int minor, long cudnn_version) {
  pretended = device;
  capability = major * 10 + minor;
  cudnn = cudnn_version;
}

// Sets whether the cuda device is one of AMD. Call it before `pretend` and `pretend_attention`.
extern "C" void pretend_rocm(bool is_rocm) { pretend_is_rocm = is_rocm; }

extern "C" long pretend_choice_count() { return pretend_choices; }
