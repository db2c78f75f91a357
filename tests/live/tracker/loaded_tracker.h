// A copy of the tracker that is loaded and started as heapsnap does it, and what its tables say,
// for tests that call its hooks themselves. TRACKER_COPY is the library.
#pragma once

#include <dlfcn.h>
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tracker/table_layout.h"
#include "tracker/tracker.h"

struct TrackedSums {
  uint64_t allocations = 0, frees = 0, allocated_bytes = 0, freed_bytes = 0;

  template <typename Counts>
  void add(const Counts& counts) {
    allocations += counts.allocations;
    frees += counts.frees;
    allocated_bytes += counts.allocated_bytes;
    freed_bytes += counts.freed_bytes;
  }
};

class LoadedTracker {
 public:
  explicit LoadedTracker(uint64_t sample_bytes)
      : library_(dlopen(TRACKER_COPY, RTLD_NOW | RTLD_LOCAL)) {
    REQUIRE_MESSAGE(library_ != nullptr, dlerror());
    start(sample_bytes);
    const auto* word =
        static_cast<const uint64_t*>(dlsym(library_, heapsnap::tracker::kDirectorySymbol));
    directory_ = reinterpret_cast<const heapsnap::tracker::Directory*>(*word);
  }
  LoadedTracker(const LoadedTracker&) = delete;
  LoadedTracker& operator=(const LoadedTracker&) = delete;
  ~LoadedTracker() { stop(); }

  // Changes the options when it runs.
  void start(uint64_t sample_bytes) const { REQUIRE(try_start(sample_bytes, 0) == 0); }
  int try_start(uint64_t sample_bytes, uint64_t memory_limit) const {
    const auto start = function<int (*)(const HeapsnapTrackerOptions*)>("heapsnap_tracker_start");
    const HeapsnapTrackerOptions options{sizeof options, 200, sample_bytes, memory_limit, -1, 0};
    return start(&options);
  }
  int stop() const { return function<int (*)()>("heapsnap_tracker_stop")(); }

  const heapsnap::tracker::Directory& directory() const { return *directory_; }

  template <typename Function>
  Function hook(const char* name) const {
    return reinterpret_cast<Function>(hook_entry(name).hook);
  }
  // Has the hook lead to `original`.
  template <typename Function>
  Function hook(const char* name, Function original) const {
    *reinterpret_cast<Function*>(hook_entry(name).original) = original;
    return hook<Function>(name);
  }

  uint32_t slot_of(const void* block) const {
    using namespace heapsnap::tracker;
    const auto address = reinterpret_cast<uint64_t>(block);
    const auto* root = reinterpret_cast<const uint64_t*>(directory_->live_root);
    const auto* leaf = reinterpret_cast<const uint32_t*>(root[address >> kLeafShift]);
    return leaf == nullptr ? 0 : leaf[(address >> kGranuleShift) & (kLeafSlots - 1)];
  }

  template <typename T>
  const T& entry_of(const heapsnap::tracker::ChunkedTable& table, uint64_t index) const {
    REQUIRE(index < table.count);
    const auto* chunks = reinterpret_cast<const uint64_t*>(table.chunks);
    return reinterpret_cast<const T*>(
        chunks[index >> table.chunk_shift])[index & ((1ULL << table.chunk_shift) - 1)];
  }

  // Over all stacks, what threads have not added yet included.
  TrackedSums sums() const {
    using namespace heapsnap::tracker;
    TrackedSums sums;
    for (uint64_t i = 0; i < directory_->stacks.count; ++i) {
      sums.add(entry_of<StackRecord>(directory_->stacks, i));
    }
    for (uint64_t i = 0; i < directory_->threads.count; ++i) {
      const auto& thread = entry_of<ThreadRecord>(directory_->threads, i);
      const auto* pending = reinterpret_cast<const PendingCounts*>(thread.pending);
      for (uint64_t k = 0; k < thread.pending_count; ++k) sums.add(pending[k]);
    }
    return sums;
  }

 private:
  template <typename Function>
  Function function(const char* name) const {
    return reinterpret_cast<Function>(dlsym(library_, name));
  }

  const heapsnap::tracker::HookEntry& hook_entry(const char* name) const {
    const auto* hooks = reinterpret_cast<const heapsnap::tracker::HookEntry*>(directory_->hooks);
    uint32_t i = 0;
    while (i < directory_->hook_count && std::strcmp(hooks[i].name, name) != 0) ++i;
    REQUIRE_MESSAGE(i < directory_->hook_count, "no hook for ", name);
    return hooks[i];
  }

  void* library_;
  const heapsnap::tracker::Directory* directory_ = nullptr;
};
