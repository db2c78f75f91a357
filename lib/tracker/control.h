// What every event looks at, in one cache line that is written only when recording starts, stops or
// changes, or when a module was unloaded.
#pragma once

#include <cstdint>

#include "tracker/table_layout.h"

#define HEAPSNAP_LIKELY(x) __builtin_expect(!!(x), 1)
#define HEAPSNAP_UNLIKELY(x) __builtin_expect(!!(x), 0)
// For variables of other files: -fvisibility does not hold for declarations, and an address that
// another library might replace takes an instruction more.
#define HEAPSNAP_OWN __attribute__((visibility("hidden")))

namespace heapsnap::tracker {

// Epochs have the highest bit set, which no address of the program has.
inline constexpr uint64_t kNoEpoch = 1ULL << 63;

struct alignas(64) Control {
  uint64_t* live_root;  // null until the first start; never changes afterwards
  uint64_t* fill_root;  // the same, or null where each slot that is filled has to be asked for
  uint64_t epoch = kNoEpoch + 1;  // a thread whose own epoch differs has to look what is new
  uint32_t recording;
  uint32_t ever_sampled;  // some stack ids carry weights
  uint64_t sample_bytes;
  uint64_t loader_begin;  // the range of ld.so: a free() from there can be a dlclose
  uint64_t loader_size;
  uint32_t max_frames;  // 1..kFramesAtMost
  uint32_t is_full;     // the tables may not grow: new blocks are not recorded, frees are
  // Of no event that is the rule.
  Directory* directory;
  uint32_t takes_interpreter_frames;
};

extern HEAPSNAP_OWN Control control;

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
