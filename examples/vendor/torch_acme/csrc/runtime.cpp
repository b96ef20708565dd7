// The runtime of the device: memory, the current device, streams, generators. All of it is the host's.

#include "acme.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

namespace acme {

namespace {

// Memory of the host, which calls itself memory of the device.
struct Allocator final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    return on_device(c10::GetCPUAllocator()->allocate(bytes));
  }
  c10::DeleterFnPtr raw_deleter() const override {
    return c10::GetCPUAllocator()->raw_deleter();
  }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};

Allocator allocator_instance;
REGISTER_ALLOCATOR(c10::DeviceType::PrivateUse1, &allocator_instance);

// One device with one stream. A call returns when its work is done, so there is nothing to wait for.
struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return c10::DeviceType::PrivateUse1; }
  c10::Device exchangeDevice(c10::Device) const override { return device(); }
  c10::Device getDevice() const override { return device(); }
  void setDevice(c10::Device wanted) const override { refuse_unknown(wanted.index()); }
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::Stream getStream(c10::Device) const override { return stream(); }
  c10::Stream getDefaultStream(c10::Device) const override { return stream(); }
  c10::Stream getStreamFromGlobalPool(c10::Device, bool) const override { return stream(); }
  c10::Stream getNewStream(c10::Device, int) const override { return stream(); }
  c10::Stream exchangeStream(c10::Stream) const override { return stream(); }
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  void record(void**, const c10::Stream&, const c10::DeviceIndex, const c10::EventFlag) const override {}
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  bool queryStream(const c10::Stream&) const override { return true; }
  void synchronizeStream(const c10::Stream&) const override {}
  void synchronizeEvent(void*) const override {}
  void synchronizeDevice(const c10::DeviceIndex) const override {}
  double elapsedTime(void*, void*, const c10::DeviceIndex) const override { return 0; }

 private:
  static c10::Stream stream() { return c10::Stream(c10::Stream::DEFAULT, device()); }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

struct Generator final : at::CPUGeneratorImpl {
  Generator() {
    device_ = device();
    key_set_ = c10::DispatchKeySet(c10::DispatchKey::PrivateUse1);
  }
};

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return 1; }
  c10::DeviceIndex getCurrentDevice() const override { return 0; }
  void setCurrentDevice(c10::DeviceIndex index) const override { refuse_unknown(index); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex) const override { return 0; }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex) const override { return 0; }
  c10::Device getDeviceFromPtr(void*) const override { return device(); }
  at::Allocator* getPinnedMemoryAllocator() const override { return c10::GetCPUAllocator(); }
  at::Generator getNewGenerator(c10::DeviceIndex) const override { return at::make_generator<Generator>(); }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex) const override {
    static const at::Generator generator = at::make_generator<Generator>();
    return generator;
  }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    resize_storage(*storage.unsafeGetStorageImpl(), bytes);
  }
};

} // namespace

c10::Allocator* allocator() {
  return &allocator_instance;
}

c10::DataPtr on_device(c10::DataPtr&& memory) {
  void* data = memory.get();
  c10::DeleterFnPtr deleter = memory.get_deleter();
  return {data, memory.release_context(), deleter, device()};
}

void refuse_unknown(c10::DeviceIndex index) {
  TORCH_CHECK(index <= 0, "there is no device acme:", static_cast<int>(index), "; there is acme:0");
}

void resize_storage(c10::StorageImpl& storage, size_t bytes) {
  c10::DataPtr memory = allocator()->allocate(bytes);
  const size_t kept = std::min(bytes, storage.nbytes());
  if (kept > 0) {
    allocator()->copy_data(memory.get(), storage.data(), kept);
  }
  storage.set_data_ptr_noswap(std::move(memory));
  storage.set_nbytes(bytes);
}

void register_hooks() {
  static Hooks hooks;
  at::RegisterPrivateUse1HooksInterface(&hooks);
}

} // namespace acme
