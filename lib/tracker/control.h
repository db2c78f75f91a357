// What every event looks at, in one cache line that is written only when recording starts, stops or
// changes, or when a module was unloaded.
#pragma once

#include <cstdint>

#include "tracker/table_layout.h"

#define HEAPSNAP_LIKELY(x) __builtin_expect(!!(x), 1)
#define HEAPSNAP_UNLIKELY(x) __builtin_expect(!!(x), 0)

namespace heapsnap::tracker {

// Epochs have the highest bit set, which no address of the program has.
inline constexpr uint64_t kNoEpoch = 1ULL << 63;

struct alignas(64) Control {
  uint64_t* live_root;            // null until the first start; never changes afterwards
  uint64_t epoch = kNoEpoch + 1;  // a thread whose own epoch differs has to look what is new
  uint32_t recording;
  uint64_t sample_bytes;
  uint32_t max_frames;    // 1..kFramesAtMost
  uint32_t ever_sampled;  // some stack ids carry weights
  uint64_t loader_begin;  // the range of ld.so: a free() from there can be a dlclose
  uint64_t loader_size;
  Directory* directory;
};

extern Control control;

// From here on every thread drops what it remembers (stacks, unwind rules) at its next event.
inline void raise_epoch() {
  __atomic_add_fetch(&control.epoch, 1, __ATOMIC_RELEASE);
}

template <typename T>
T load(const T& from) {
  return __atomic_load_n(&from, __ATOMIC_RELAXED);
}
template <typename T>
T load_acquire(const T& from) {
  return __atomic_load_n(&from, __ATOMIC_ACQUIRE);
}
template <typename T>
struct Exactly {  // keeps a value's type out of the deduction
  using Type = T;
};
template <typename T>
void store(T& to, typename Exactly<T>::Type value) {
  __atomic_store_n(&to, value, __ATOMIC_RELAXED);
}
template <typename T>
void store_release(T& to, typename Exactly<T>::Type value) {
  __atomic_store_n(&to, value, __ATOMIC_RELEASE);
}
template <typename T>
void add(T& to, typename Exactly<T>::Type value) {
  __atomic_fetch_add(&to, value, __ATOMIC_RELAXED);
}

}  // namespace heapsnap::tracker
