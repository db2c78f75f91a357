// The loops as code at another place do what they do here.
#include "heap/in_place/loop_code.h"

#include <doctest/doctest.h>
#include <sys/mman.h>

#include <cstring>
#include <vector>

using namespace heapsnap;

namespace {

// The code at a place of its own, called as a function: behind the entry's `call` stands an int3.
class PlacedLoops {
 public:
  PlacedLoops() : loops_(loop_code()) {
    void* const mapped =
        ::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(mapped != MAP_FAILED);
    place_ = static_cast<std::byte*>(mapped);
    REQUIRE(loops_.code.bytes.size() <= kSize);
    std::memcpy(place_, loops_.code.bytes.data(), loops_.code.bytes.size());
    REQUIRE(::mprotect(place_, kSize, PROT_READ | PROT_EXEC) == 0);
  }
  PlacedLoops(const PlacedLoops&) = delete;
  PlacedLoops& operator=(const PlacedLoops&) = delete;
  ~PlacedLoops() { ::munmap(place_, kSize); }

  void scan(ScanTask& task) const {
    reinterpret_cast<void (*)(ScanTask*)>(place_ + loops_.scan)(&task);
  }
  void follow(ListsTask& task) const {
    reinterpret_cast<void (*)(ListsTask*)>(place_ + loops_.follow)(&task);
  }
  const LoopCode& loops() const { return loops_; }

 private:
  static constexpr size_t kSize = 16 << 10;

  LoopCode loops_;
  std::byte* place_ = nullptr;
};

}  // namespace

TEST_CASE("the entry calls, and traps right behind the call") {
  const PlacedLoops placed;
  const LoopCode& loops = placed.loops();
  REQUIRE(loops.code.trap > loops.code.entry);
  CHECK(loops.code.bytes[loops.code.trap - 1] == std::byte{0xcc});
  CHECK(loops.scan < loops.code.bytes.size());
  CHECK(loops.follow < loops.code.bytes.size());
}

TEST_CASE("at another place a scan tells what it tells here") {
  constexpr size_t kChunks = 1000;
  std::vector<uint64_t> heap(kChunks * 4 + 2);
  for (size_t i = 0; i <= kChunks; ++i) heap[i * 4 + 1] = 32 | (i % 3 == 2 ? 0 : 1);
  for (size_t i = 2; i <= kChunks; i += 3) heap[i * 4] = 32;
  const auto begin = reinterpret_cast<uint64_t>(heap.data());
  ScanTask task;
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

  PlacedLoops().scan(task);
  CHECK(task.count == count);
  CHECK(task.scan.at == here.at);
  CHECK(answers == expected);
}

TEST_CASE("at another place a list is followed as it is here") {
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
  // One list from both ends, and its second half alone.
  ListsTask task;
  task.memories = {memories.data(), memories.size()};
  task.count = 2;
  std::vector<uint64_t> answers(2 * (kChunks + 10));
  std::vector<uint64_t> expected(answers.size());
  const size_t middle = kChunks / 2 * 7 % kChunks;
  task.lists[0].scan.chunk = Address(address(0));
  task.lists[0].scan.previous = task.lists[0].scan.tail = Address(address(kChunks - 7));
  task.lists[1].scan.chunk = Address(address(middle));
  task.lists[1].scan.previous = Address(address(middle + kChunks - 7));
  ListPass here[2];
  for (size_t i = 0; i < 2; ++i) {
    task.lists[i].room = kChunks + 10;
    here[i] = task.lists[i];
    task.lists[i].answers = answers.data() + i * (kChunks + 10);
    here[i].answers = expected.data() + i * (kChunks + 10);
  }
  follow_lists(here, 2, task.memories);
  CHECK(here[0].forward + here[0].backward == kChunks);
  CHECK(here[0].backward > kChunks / 3);
  CHECK(here[1].forward == kChunks / 2);

  PlacedLoops().follow(task);
  for (size_t i = 0; i < 2; ++i) {
    CHECK(task.lists[i].forward == here[i].forward);
    CHECK(task.lists[i].backward == here[i].backward);
    CHECK(task.lists[i].scan.chunk == here[i].scan.chunk);
    CHECK(task.lists[i].scan.tail == here[i].scan.tail);
  }
  CHECK(answers == expected);
}
