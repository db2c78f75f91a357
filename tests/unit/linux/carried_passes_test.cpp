// The carried code does elsewhere what the loops do here.
#include "platform/linux/carried_passes.h"

#include <doctest/doctest.h>
#include <sys/mman.h>

#include <cstring>
#include <vector>

using namespace heapsnap;

namespace {

// The code at a place of its own, called as a function: behind the entry's `call` stands an int3.
class Carried {
 public:
  Carried() : passes_(carried_passes()) {
    void* const mapped =
        ::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(mapped != MAP_FAILED);
    place_ = static_cast<std::byte*>(mapped);
    REQUIRE(passes_.bytes.size() <= kSize);
    std::memcpy(place_, passes_.bytes.data(), passes_.bytes.size());
    REQUIRE(::mprotect(place_, kSize, PROT_READ | PROT_EXEC) == 0);
  }
  Carried(const Carried&) = delete;
  Carried& operator=(const Carried&) = delete;
  ~Carried() { ::munmap(place_, kSize); }

  void scan(CarriedScan& task) const {
    reinterpret_cast<void (*)(CarriedScan*)>(place_ + passes_.scan)(&task);
  }
  void follow(CarriedList& task) const {
    reinterpret_cast<void (*)(CarriedList*)>(place_ + passes_.follow)(&task);
  }
  const CarriedPasses& passes() const { return passes_; }

 private:
  static constexpr size_t kSize = 16 << 10;

  CarriedPasses passes_;
  std::byte* place_ = nullptr;
};

}  // namespace

TEST_CASE("the entry calls, and traps right behind the call") {
  const Carried carried;
  const CarriedPasses& passes = carried.passes();
  REQUIRE(passes.trap > passes.entry);
  CHECK(passes.bytes[passes.trap - 1] == std::byte{0xcc});
  CHECK(passes.scan < passes.bytes.size());
  CHECK(passes.follow < passes.bytes.size());
}

TEST_CASE("carried away, a scan tells what it tells here") {
  constexpr size_t kChunks = 1000;
  std::vector<uint64_t> heap(kChunks * 4 + 2);
  for (size_t i = 0; i <= kChunks; ++i) heap[i * 4 + 1] = 32 | (i % 3 == 2 ? 0 : 1);
  for (size_t i = 2; i <= kChunks; i += 3) heap[i * 4] = 32;
  const auto begin = reinterpret_cast<uint64_t>(heap.data());
  CarriedScan task;
  task.scan.at = Address(begin);
  task.scan.limit = task.scan.readable_end = Address(begin + heap.size() * 8);
  task.scan.min_size = 32;
  task.memory = {begin, begin + heap.size() * 8, 0};
  std::vector<uint32_t> answers(kChunks + 10);
  std::vector<uint32_t> expected(kChunks + 10);
  task.answers = answers.data();
  task.room = answers.size();
  ChunkScan here = task.scan;
  const size_t count = scan_chunks(here, task.memory, expected.data(), expected.size());
  CHECK(count == kChunks);

  Carried().scan(task);
  CHECK(task.count == count);
  CHECK(task.scan.at == here.at);
  CHECK(answers == expected);
}

TEST_CASE("carried away, a list is followed as it is here") {
  constexpr size_t kChunks = 1000;
  std::vector<uint64_t> heap(kChunks * 4);
  const auto begin = reinterpret_cast<uint64_t>(heap.data());
  const auto address = [&](size_t i) { return begin + i % kChunks * 32; };
  for (size_t i = 0; i < kChunks; ++i) {
    // Every 7th chunk, round and round, comes past all of them.
    heap[i * 4 + 2] = i == kChunks - 7 ? 0 : address(i + 7);
    heap[i * 4 + 3] = address(i + kChunks - 7);
  }
  const std::vector<PlacedMemory> memories{{begin, begin + kChunks * 16, 0},
                                           {begin + kChunks * 16, begin + kChunks * 32, 0}};
  CarriedList task;
  task.list.chunk = Address(address(0));
  task.list.previous = Address(address(kChunks - 7));
  task.list.tail = Address(address(kChunks - 7));
  task.memories = memories.data();
  task.memory_count = memories.size();
  std::vector<uint64_t> answers(kChunks + 10);
  std::vector<uint64_t> expected(kChunks + 10);
  task.answers = answers.data();
  task.room = answers.size();
  ListScan here = task.list;
  const ListCounts counts =
      follow_list(here, memories.data(), memories.size(), expected.data(), expected.size());
  CHECK(counts.forward + counts.backward == kChunks);
  CHECK(counts.backward > kChunks / 3);

  Carried().follow(task);
  CHECK(task.counts.forward == counts.forward);
  CHECK(task.counts.backward == counts.backward);
  CHECK(task.list.chunk == here.chunk);
  CHECK(task.list.tail == here.tail);
  CHECK(answers == expected);
}
