// A tracker that takes samples: what it passes over, what it records, and that it loses no block
// that it recorded, whoever frees it and whatever the options have become.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <random>
#include <thread>
#include <vector>

#include "tests/live/tracker/loaded_tracker.h"
#include "tracker/table_layout.h"

using namespace heapsnap::tracker;

namespace {

constexpr unsigned kThreads = 4;
constexpr unsigned kActs = 100000;

struct Hooks {
  explicit Hooks(const LoadedTracker& tracker)
      : malloc(tracker.hook<void* (*)(size_t)>("malloc")),
        free(tracker.hook<void (*)(void*)>("free")),
        calloc(tracker.hook<void* (*)(size_t, size_t)>("calloc")),
        realloc(tracker.hook<void* (*)(void*, size_t)>("realloc")),
        memalign(tracker.hook<void* (*)(size_t, size_t)>("memalign")) {}

  void* (*malloc)(size_t);
  void (*free)(void*);
  void* (*calloc)(size_t, size_t);
  void* (*realloc)(void*, size_t);
  void* (*memalign)(size_t, size_t);
};

// Where threads leave blocks for others.
std::atomic<void*> exchange[64];

// Every address that was a block's once.
std::vector<void*> churn(const Hooks& hooks, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<void*> seen;
  void* block = nullptr;
  for (unsigned i = 0; i < kActs; ++i) {
    // Some have a mapping of their own.
    const size_t size = random() % 500 == 0 ? 200000 + random() % 100000 : random() % 300;
    switch (random() % 6) {
      case 0: block = hooks.realloc(block, size); break;  // gives null for size 0
      case 1:
        hooks.free(block);
        block = hooks.calloc(3, size / 3);
        break;
      case 2:
        hooks.free(block);
        block = hooks.memalign(64, size);
        break;
      case 3:
        hooks.free(block);
        block = nullptr;
        break;
      default:
        hooks.free(block);
        block = hooks.malloc(size);
        break;
    }
    if (block != nullptr) seen.push_back(block);
    block = exchange[random() % std::size(exchange)].exchange(block);
  }
  hooks.free(block);
  return seen;
}

// Calls `meanwhile` until all have come to their end; afterwards no block is left.
template <typename Meanwhile>
std::vector<void*> churn_in_threads(const Hooks& hooks, const Meanwhile& meanwhile) {
  std::vector<std::vector<void*>> seen(kThreads);
  std::atomic<unsigned> at_work{kThreads};
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      seen[i] = churn(hooks, i);
      --at_work;
    });
  }
  while (at_work != 0) meanwhile();
  for (std::thread& thread : threads) thread.join();
  for (std::atomic<void*>& place : exchange) hooks.free(place.exchange(nullptr));
  std::vector<void*> all;
  for (const auto& part : seen) all.insert(all.end(), part.begin(), part.end());
  return all;
}

void check_all_gone(const LoadedTracker& tracker, const std::vector<void*>& seen) {
  CHECK(seen.size() > kThreads * kActs / 2);
  const auto is_recorded = [&](const void* block) { return tracker.slot_of(block) != kEmptySlot; };
  CHECK(std::count_if(seen.begin(), seen.end(), is_recorded) == 0);
  const TrackedSums sums = tracker.sums();
  CHECK(sums.allocations > 0);
  CHECK(sums.allocations == sums.frees);
  CHECK(sums.allocated_bytes == sums.freed_bytes);
}

}  // namespace

TEST_CASE("samples give unbiased sums") {
  constexpr uint64_t kMean = 4096;
  const LoadedTracker tracker(kMean);
  const Hooks hooks(tracker);
  constexpr unsigned kBlocks = 400000;
  uint64_t bytes = 0;
  for (unsigned i = 0; i < kBlocks; ++i) {
    const size_t size = i % 100 == 0 ? 10000 : 16 + i % 64;
    bytes += size;
    hooks.free(hooks.malloc(size));
  }
  const Directory& directory = tracker.directory();
  for (uint32_t stack = kFirstStack; stack < directory.stacks.count; ++stack) {
    const auto& record = tracker.entry_of<StackRecord>(directory.stacks, stack);
    CHECK(record.sample_bytes == kMean);
    CHECK(record.allocations == record.frees);
    CHECK(record.allocated_bytes == record.freed_bytes);
  }
  const TrackedSums sums = tracker.sums();
  // Standard deviations are about 0.8 % of the bytes and 2.3 % of the number.
  CHECK(static_cast<double>(sums.allocated_bytes) == doctest::Approx(bytes).epsilon(0.05));
  CHECK(static_cast<double>(sums.allocations) / kSampledCountUnit ==
        doctest::Approx(kBlocks).epsilon(0.12));
}

TEST_CASE("blocks of all entry points have the same chance") {
  constexpr uint64_t kMean = 4096;
  constexpr unsigned kBlocks = 100000;
  constexpr size_t kSize = 96;
  const auto estimate = [&](const auto& allocate) {
    const LoadedTracker tracker(kMean);
    const Hooks hooks(tracker);
    for (unsigned i = 0; i < kBlocks; ++i) hooks.free(allocate(hooks));
    return static_cast<double>(tracker.sums().allocated_bytes) / (kBlocks * kSize);
  };
  // One standard deviation is 2.1 %.
  CHECK(estimate([](const Hooks& hooks) { return hooks.malloc(kSize); }) ==
        doctest::Approx(1).epsilon(0.12));
  CHECK(estimate([](const Hooks& hooks) { return hooks.calloc(kSize / 8, 8); }) ==
        doctest::Approx(1).epsilon(0.12));
  CHECK(estimate([](const Hooks& hooks) { return hooks.realloc(nullptr, kSize); }) ==
        doctest::Approx(1).epsilon(0.12));
  CHECK(estimate([](const Hooks& hooks) { return hooks.memalign(32, kSize); }) ==
        doctest::Approx(1).epsilon(0.12));
  // Two allocations to the tracker, the second three times as large.
  CHECK(estimate([](const Hooks& hooks) {
          return hooks.realloc(hooks.malloc(kSize / 4), kSize / 4 * 3);
        }) == doctest::Approx(1).epsilon(0.12));
}

TEST_CASE("no free of a recorded block is missed") {
  const LoadedTracker tracker(2048);
  const Hooks hooks(tracker);
  check_all_gone(tracker, churn_in_threads(hooks, [] { std::this_thread::yield(); }));

  // Recording all ends the passing over of frees for good, so this comes last in this process.
  unsigned changes = 0;
  const auto change_options = [&] {
    constexpr uint64_t kChoices[] = {0, 2048, 64 << 10, 0, 512};
    tracker.start(kChoices[changes++ % std::size(kChoices)]);
  };
  check_all_gone(tracker, churn_in_threads(hooks, change_options));
  CHECK(changes > std::size(exchange));
}
