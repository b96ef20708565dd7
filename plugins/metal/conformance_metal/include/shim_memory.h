// The arguments of a kernel, with the bounds of their memory; memory of a threadgroup; conversions to integers.
#pragma once

namespace shim {

// What a kernel did first that is wrong. `name`: of the argument. `ended_early`: a thread has reported an error itself.
struct Fault {
  const char* kind;
  const char* name;
  long index, first, end;
  bool ended_early = false;
};
inline Fault fault = {};

// Waits until all lanes of the simdgroup are about to store: they load before any of them stores. shim_threads.h has it.
inline void in_step();

// `first`, `end`: the elements of its storage, counted from `data`.
struct Argument {
  void* data;
  long first, end;
};

template <class T>
struct Buffer {
  T* data;
  long first, end;
  const char* name;
  Buffer(const Argument& argument, const char* name)
      : data(static_cast<T*>(argument.data)), first(argument.first), end(argument.end), name(name) {}
  template <class I>
  T& operator[](I at) const {
    static std::remove_const_t<T> nothing;
    if constexpr (!std::is_const_v<T>) in_step();
    const long index = long(at);
    if (index >= first && index < end) return data[index];
    if (!fault.kind) fault = {"accesses an element out of bounds", name, index, first, end};
    std::memset(static_cast<void*>(&nothing), std::is_same_v<std::remove_const_t<T>, bool> ? 1 : 0xFF, sizeof nothing);
    return nothing;
  }
  operator T*() const { return data; }
};

inline long group_number = 0;

// Memory of a threadgroup holds nothing at the beginning: NaN, or -1. `seen`: the group that had it last.
inline void forget(void* memory, size_t size, bool of_bool, long& seen) {
  if (seen == group_number) return;
  seen = group_number;
  std::memset(memory, of_bool ? 1 : 0xFF, size);
}

// As GPUs convert: saturating at 32 or 64 bits, NaN as 0; fewer bits are the low ones of the result.
template <class T, class U>
T converted(U value) {
  if constexpr (metal::is_integral_v<T> && !std::is_same_v<T, bool> && metal::is_floating_point_v<U>) {
    using Wide = std::conditional_t<(sizeof(T) >= 4), T, int>;
    const float single = float(value);
    if (single != single) return T(0);
    if (single >= float(std::numeric_limits<Wide>::max())) return T(std::numeric_limits<Wide>::max());
    if (single <= float(std::numeric_limits<Wide>::lowest())) return T(std::numeric_limits<Wide>::lowest());
    return T(Wide(single));
  } else {
    return static_cast<T>(value);
  }
}

}  // namespace shim
