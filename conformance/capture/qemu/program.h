// The program around a kernel. It maps the file of its first argument: the memory of all tensors. Its other arguments are
// the kernel's own: the place of a tensor in that file, or a number. What the kernel throws goes to stderr, with status 3.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <type_traits>

static char* memory;

template <typename T>
static T argument(const char* text) {
  if constexpr (std::is_pointer_v<T>) {
    return reinterpret_cast<T>(memory + std::strtoull(text, nullptr, 10));
  } else if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(std::strtod(text, nullptr));
  } else {
    return static_cast<T>(std::strtoll(text, nullptr, 10));
  }
}

template <typename Call>
static int run(const char* file, Call call) {
  int descriptor = open(file, O_RDWR);
  off_t size = lseek(descriptor, 0, SEEK_END);
  void* mapped = mmap(nullptr, static_cast<size_t>(size), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (mapped == MAP_FAILED) {
    std::perror(file);
    return 2;
  }
  memory = static_cast<char*>(mapped);
  try {
    call();
  } catch (const std::exception& error) {
    std::fputs(error.what(), stderr);
    return 3;
  }
  return 0;
}

// What kernels call of libtorch.
extern "C" __attribute__((weak)) void aoti_torch_check(
    bool condition, const char*, const char*, uint32_t, const char* message) {
  if (!condition) {
    throw std::runtime_error(message);
  }
}
