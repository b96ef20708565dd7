// A stand-in for a vendor's device: a device of PyTorch (PrivateUse1) whose memory and whose kernels are the host's.

#pragma once

#include <ATen/ATen.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/StorageImpl.h>

namespace acme {

inline c10::Device device() {
  return {c10::DeviceType::PrivateUse1, 0};
}

c10::Allocator* allocator();

// The same memory, under the name of the device.
c10::DataPtr on_device(c10::DataPtr&& memory);

// Raises for another device than the first.
void refuse_unknown(c10::DeviceIndex index);

// Keeps the bytes that fit.
void resize_storage(c10::StorageImpl& storage, size_t bytes);

void register_hooks();

} // namespace acme
