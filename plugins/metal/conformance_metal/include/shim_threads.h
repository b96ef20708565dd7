// Runs the threads of a kernel on the CPU, those of a threadgroup in lockstep between barriers.
//
// Each thread of a group is a fiber. It runs until it waits: at a barrier, or in a function of its simdgroup. A function
// of a simdgroup ends when all threads of the simdgroup wait, with the values of those that called it. A barrier ends
// when all threads of the group wait there. Between two barriers, one thread runs after the other, so a missing barrier
// shows as a wrong value. Launches alternate between ascending and descending order. The lanes of a simdgroup store
// together, as on a device: what all of them load before, none of them has changed.
#pragma once
#include <shim_memory.h>

namespace shim {

constexpr uint simdgroup_size = 32;
constexpr uint most_threads = 1024;

struct Place {
  uint3 in_grid, in_group, group, group_size, grid_size;
  uint index;  // in the group
};

enum class State { ready, at_barrier, in_simdgroup, ended };

struct Fiber {
  ucontext_t context;
  State state;
  const void* call;  // the function of the simdgroup that it waits in
};

// What the threads of a simdgroup gave to a function: the values of the lanes that called it.
struct Lanes {
  alignas(16) char values[simdgroup_size][16];
  bool called[simdgroup_size];
};

struct Group {
  Fiber fibers[most_threads];
  Lanes given[most_threads / simdgroup_size], known[most_threads / simdgroup_size];
  ucontext_t scheduler;
  uint size = 0, running = 0;
  const std::function<void(uint)>* body = nullptr;
  char* stacks = nullptr;
};
inline Group* group = nullptr;
constexpr size_t stack_size = 64 << 10;

inline void wait(State state, const void* call = nullptr) {
  Fiber& fiber = group->fibers[group->running];
  fiber.state = state;
  fiber.call = call;
  swapcontext(&fiber.context, &group->scheduler);
}

inline void enter() {
  (*group->body)(group->running);
  wait(State::ended);
}

inline void run_until_it_waits(uint index) {
  group->running = index;
  swapcontext(&group->scheduler, &group->fibers[index].context);
}

// Ends the first function that threads of a simdgroup wait in. False if none waits in one.
inline bool end_function(uint simdgroup) {
  const uint first = simdgroup * simdgroup_size, end = std::min(first + simdgroup_size, group->size);
  const void* call = nullptr;
  for (uint i = first; i < end && !call; ++i) {
    if (group->fibers[i].state == State::in_simdgroup) call = group->fibers[i].call;
  }
  if (!call) return false;
  Lanes& known = group->known[simdgroup];
  std::memcpy(known.values, group->given[simdgroup].values, sizeof known.values);
  for (uint lane = 0; lane < simdgroup_size; ++lane) {
    Fiber& fiber = group->fibers[first + lane];
    known.called[lane] = first + lane < end && fiber.state == State::in_simdgroup && fiber.call == call;
    if (known.called[lane]) fiber.state = State::ready;
  }
  return true;
}

// Runs a group of `size` threads. `reversed`: in descending order.
inline void run_group(uint size, bool reversed, const std::function<void(uint)>& body) {
  group->size = size;
  group->body = &body;
  for (uint i = 0; i < size; ++i) {
    Fiber& fiber = group->fibers[i];
    getcontext(&fiber.context);
    fiber.context.uc_stack = {group->stacks + i * stack_size, 0, stack_size};
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, enter, 0);
    fiber.state = State::ready;
  }
  const uint simdgroups = (size + simdgroup_size - 1) / simdgroup_size;
  const auto ordered = [&](uint i, uint count) { return reversed ? count - 1 - i : i; };
  while (true) {
    for (uint s = 0; s < simdgroups; ++s) {
      const uint simdgroup = ordered(s, simdgroups), first = simdgroup * simdgroup_size;
      const uint count = std::min(simdgroup_size, size - first);
      do {
        for (uint lane = 0; lane < count; ++lane) {
          const uint index = first + ordered(lane, count);
          if (group->fibers[index].state == State::ready) run_until_it_waits(index);
        }
      } while (end_function(simdgroup));
    }
    uint waiting = 0;
    for (uint i = 0; i < size; ++i) waiting += group->fibers[i].state == State::at_barrier;
    if (waiting == 0) return;
    if (waiting != size && !fault.kind && !fault.ended_early) {
      fault = {"some threads wait at a barrier, and others have ended", nullptr, 0, 0, 0};
    }
    for (uint i = 0; i < size; ++i) {
      if (group->fibers[i].state == State::at_barrier) group->fibers[i].state = State::ready;
    }
  }
}

// The values that the calling lanes of this thread's simdgroup give; `call` tells functions of one simdgroup apart.
template <class T>
const Lanes& exchanged(T value, const void* call) {
  static_assert(sizeof(T) <= 16);
  const uint simdgroup = group->running / simdgroup_size;
  std::memcpy(group->given[simdgroup].values[group->running % simdgroup_size], &value, sizeof(T));
  wait(State::in_simdgroup, call);
  return group->known[simdgroup];
}

template <class T>
T value_of(const Lanes& lanes, uint lane) {
  T value;
  std::memcpy(static_cast<void*>(&value), lanes.values[lane], sizeof(T));
  return value;
}

inline void in_step() {
  static const char call = 0;
  if (group) wait(State::in_simdgroup, &call);
}

inline uint lane() { return group->running % simdgroup_size; }

// Combines the values of the calling lanes, the least lane first.
template <class T, class F>
T combined(T value, F combine, const void* call) {
  const Lanes& lanes = exchanged(value, call);
  bool is_first = true;
  T result = value;
  for (uint i = 0; i < simdgroup_size; ++i) {
    if (!lanes.called[i]) continue;
    result = is_first ? value_of<T>(lanes, i) : combine(result, value_of<T>(lanes, i));
    is_first = false;
  }
  return result;
}

// The value of another lane. A device gives 0 for one that does not call the function.
template <class T>
T shuffled(T value, int from, T outside, const void* call) {
  const Lanes& lanes = exchanged(value, call);
  if (from < 0 || from >= int(simdgroup_size)) return outside;
  return lanes.called[from] ? value_of<T>(lanes, from) : T(0);
}

// Runs `body` for each thread of the grid. `in_groups`: threads wait for each other.
template <class F>
void launch(uint3 grid, uint3 size, bool in_groups, bool reversed, F body) {
  const uint3 groups((grid.x + size.x - 1) / size.x, (grid.y + size.y - 1) / size.y, (grid.z + size.z - 1) / size.z);
  if (in_groups) {
    group = new Group;
    group->stacks = static_cast<char*>(
        mmap(nullptr, stack_size * most_threads, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  }
  for (uint z = 0; z < groups.z; ++z)
    for (uint y = 0; y < groups.y; ++y)
      for (uint x = 0; x < groups.x; ++x) {
        const uint3 first(x * size.x, y * size.y, z * size.z);
        const uint3 extent(std::min(size.x, grid.x - first.x), std::min(size.y, grid.y - first.y),
                           std::min(size.z, grid.z - first.z));
        const auto one = [&](uint index) {
          const uint3 at(index % extent.x, index / extent.x % extent.y, index / (extent.x * extent.y));
          body(Place{first + at, at, uint3(x, y, z), extent, grid, index});
        };
        ++group_number;
        const uint count = extent.x * extent.y * extent.z;
        if (in_groups) {
          run_group(count, reversed, one);
        } else {
          for (uint i = 0; i < count; ++i) one(i);
        }
      }
  if (in_groups) {
    munmap(group->stacks, stack_size * most_threads);
    delete group;
    group = nullptr;
  }
}

// The first elements of three, as the type of a parameter has them.
template <class T>
T part(uint3 three) {
  if constexpr (std::is_integral_v<T>) return T(three.x);
  else if constexpr (sizeof(T) == 2 * sizeof(T::x)) return T(three.x, three.y);
  else return T(three.x, three.y, three.z);
}

// A division of integers by 0 ends the launch: no device gives a number for it that one could rely on.
inline sigjmp_buf at_launch;
inline void division_by_zero(int) { siglongjmp(at_launch, 1); }

// launch(), with what went wrong first in `*found`.
template <class F>
void launched(const uint* grid, const uint* size, bool in_groups, bool reversed, Fault* found, F body) {
  fault = {};
  struct sigaction before, handler = {};
  handler.sa_handler = division_by_zero;
  handler.sa_flags = SA_NODEFER;
  sigaction(SIGFPE, &handler, &before);
  if (sigsetjmp(at_launch, 1) == 0) {
    launch(uint3(grid[0], grid[1], grid[2]), uint3(size[0], size[1], size[2]), in_groups, reversed, body);
  } else if (!fault.kind) {
    fault = {"divides an integer by 0, or the least integer by -1", nullptr, 0, 0, 0};
  }
  sigaction(SIGFPE, &before, nullptr);
  *found = fault;
}

}  // namespace shim

namespace metal {

enum class mem_flags { mem_none = 0, mem_device = 1, mem_threadgroup = 2, mem_texture = 4 };
inline mem_flags operator|(mem_flags a, mem_flags b) { return mem_flags(int(a) | int(b)); }
inline void threadgroup_barrier(mem_flags) { shim::wait(shim::State::at_barrier); }
inline void simdgroup_barrier(mem_flags) {
  static const char call = 0;
  shim::exchanged(0, &call);
}

// Functions of simdgroups have overloads for 32 bits or fewer, and none for bool: it becomes int, as in Metal.
// clang-format off
#define EXCHANGEABLE(F, name, expression)                                                                              \
  F(float, name, expression) F(half, name, expression) F(char, name, expression) F(uchar, name, expression)            \
  F(short, name, expression) F(ushort, name, expression) F(int, name, expression) F(uint, name, expression)
#define COMBINING(T, name, expression)                                                                                 \
  inline T name(T value) {                                                                                             \
    static const char call = 0;                                                                                        \
    return shim::combined(value, [](T a, T b) { return T(expression); }, &call);                                       \
  }
EXCHANGEABLE(COMBINING, simd_sum, a + b) EXCHANGEABLE(COMBINING, simd_product, a * b)
EXCHANGEABLE(COMBINING, simd_max, metal::max(a, b)) EXCHANGEABLE(COMBINING, simd_min, metal::min(a, b))
#undef COMBINING
#define SHUFFLE(name, from, outside)                                                                                   \
  template <class T> T name(T value, ushort by) {                                                                      \
    static const char call = 0;                                                                                        \
    return shim::shuffled(value, from, outside, &call);                                                                \
  }
SHUFFLE(simd_shuffle, by, T(0)) SHUFFLE(simd_broadcast, by, T(0)) SHUFFLE(simd_shuffle_xor, int(shim::lane()) ^ by, T(0))
SHUFFLE(simd_shuffle_down, int(shim::lane()) + by, T(0)) SHUFFLE(simd_shuffle_up, int(shim::lane()) - by, T(0))
#undef SHUFFLE
// clang-format on
template <class T>
T simd_shuffle_and_fill_down(T value, T fill, ushort by) {
  static const char call = 0;
  return shim::shuffled(value, int(shim::lane()) + by, fill, &call);
}
template <class T>
T simd_shuffle_and_fill_up(T value, T fill, ushort by) {
  static const char call = 0;
  return shim::shuffled(value, int(shim::lane()) - by, fill, &call);
}

struct simd_vote {
  ulong lanes;
  explicit operator ulong() const { return lanes; }
};
inline simd_vote simd_ballot(bool value) {
  static const char call = 0;
  const shim::Lanes& lanes = shim::exchanged(value, &call);
  ulong bits = 0;
  for (uint i = 0; i < shim::simdgroup_size; ++i) bits |= ulong(lanes.called[i] && shim::value_of<bool>(lanes, i)) << i;
  return {bits};
}
inline bool simd_any(bool value) { return simd_ballot(value).lanes != 0; }
inline bool simd_all(bool value) { return simd_ballot(!value).lanes == 0; }
inline bool simd_is_first() {
  const ulong calling = simd_ballot(true).lanes;
  return __builtin_ctzl(calling) == int(shim::lane());
}

}  // namespace metal
