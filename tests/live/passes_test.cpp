// Passes that the copy makes over its own memory: the same answers as reading it, and what becomes
// of a pass that runs into memory that cannot be read.
//
// The target is this program itself, forked: what it holds is known.
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "heap/in_place/local_passes.h"
#include "platform/linux/freeze/frozen_process.h"
#include "tests/live/checks.h"

namespace heapsnap::live {

namespace {

constexpr size_t kChunks = 200'000;  // several passes
constexpr size_t kChunkWords = 6;
constexpr size_t kBytes = (kChunks * kChunkWords + 2) * 8;

// Memory of chunks, every fifth one free and on a list, shared with nobody.
class ChunkMemory {
 public:
  ChunkMemory() {
    void* const mapped =
        ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(mapped != MAP_FAILED);
    words_ = static_cast<uint64_t*>(mapped);
    for (size_t i = 0; i <= kChunks; ++i) {
      words_[i * kChunkWords + 1] = kChunkWords * 8 | (i % 5 == 1 ? 0 : 1);
      if (i % 5 == 1) words_[i * kChunkWords] = kChunkWords * 8;
    }
    // From the last one down, so that a list runs through all pages.
    for (size_t i = 0; i < kChunks; i += 5) {
      words_[i * kChunkWords + 2] = i == 0 ? 0 : chunk(i - 5).value();
      words_[i * kChunkWords + 3] = i + 5 >= kChunks ? 0 : chunk(i + 5).value();
    }
  }
  ChunkMemory(const ChunkMemory&) = delete;
  ChunkMemory& operator=(const ChunkMemory&) = delete;
  ~ChunkMemory() { ::munmap(words_, kBytes); }

  Address chunk(size_t i) const {
    return Address(reinterpret_cast<uint64_t>(words_ + i * kChunkWords));
  }
  Address end() const { return chunk(0) + kBytes; }
  ChunkScan scan() const {
    ChunkScan scan;
    scan.at = chunk(0);
    scan.limit = chunk(kChunks);
    scan.readable_end = end();
    scan.min_size = 32;
    return scan;
  }
  // From both ends, and, as the second list, its first half alone.
  std::vector<ListScan> lists() const {
    ListScan whole;
    whole.chunk = chunk(kChunks - 5);
    whole.tail = chunk(0);
    ListScan half = whole;
    half.following = chunk(kChunks / 2);
    half.tail = half.following + kChunkWords * 8 * 5;
    return {whole, half};
  }
  LocalPasses local_passes() const {
    return LocalPasses([this](Address at) -> std::span<const std::byte> {
      if (at < chunk(0) || at >= end()) return {};
      return {reinterpret_cast<const std::byte*>(at.value()), end() - at};
    });
  }
  void make_unreadable(size_t page) {
    REQUIRE(::mprotect(reinterpret_cast<std::byte*>(words_) + page * 4096, 4096, PROT_NONE) == 0);
  }

 private:
  uint64_t* words_ = nullptr;
};

// A child of ours that only waits.
class WaitingProcess {
 public:
  WaitingProcess() : pid_(::fork()) {
    if (pid_ == 0) {
      for (;;) ::pause();
    }
    REQUIRE(pid_ > 0);
  }
  WaitingProcess(const WaitingProcess&) = delete;
  WaitingProcess& operator=(const WaitingProcess&) = delete;
  ~WaitingProcess() { end(); }

  pid_t pid() const { return pid_; }
  // The signal that ended it.
  int end() {
    if (pid_ <= 0) return 0;
    int status = 0;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  }

 private:
  pid_t pid_;
};

std::vector<uint32_t> all_chunks(HeapPasses& passes, ChunkScan scan) {
  std::vector<uint32_t> chunks;
  for (;;) {
    const auto answers = passes.scan(scan);
    if (answers.empty()) return chunks;
    chunks.insert(chunks.end(), answers.begin(), answers.end());
  }
}

// In order of address: how far each way came in a pass is not told.
std::vector<uint64_t> all_links(HeapPasses& passes, std::vector<ListScan> lists,
                                AddressRange heap) {
  std::vector<uint64_t> links;
  for (bool goes_on = true; goes_on;) {
    goes_on = false;
    for (const ListedChunks& told : passes.follow(lists, std::span(&heap, 1))) {
      if (!told.forward.empty()) goes_on = true;
      links.insert(links.end(), told.forward.begin(), told.forward.end());
      links.insert(links.end(), told.backward.begin(), told.backward.end());
    }
  }
  std::sort(links.begin(), links.end());
  return links;
}

}  // namespace

TEST_CASE("the copy's passes tell what passes over the same memory here tell") {
  const ChunkMemory memory;
  WaitingProcess target;
  LocalPasses here = memory.local_passes();
  const auto frozen = std::make_unique<FrozenProcess>(target.pid(), choose(FreezeChoice::kFork));
  const auto passes = passes_over(*frozen);
  REQUIRE(passes != nullptr);
  const auto chunks = all_chunks(*passes, memory.scan());
  CHECK(chunks.size() == kChunks);
  CHECK(chunks == all_chunks(here, memory.scan()));
  const AddressRange heap{memory.chunk(0), memory.end()};
  const auto links = all_links(*passes, memory.lists(), heap);
  CHECK(links.size() == kChunks / 5 + kChunks / 10 - 1);
  CHECK(links == all_links(here, memory.lists(), heap));
  // Memory is read between passes as before.
  CHECK(frozen->memory().read_value<uint64_t>(memory.chunk(7) + 8) == (kChunkWords * 8 | 1));
  std::vector<std::byte> bytes(kBytes);
  CHECK(frozen->memory().read_exact(memory.chunk(0), bytes));
  CHECK(std::memcmp(bytes.data(), reinterpret_cast<void*>(memory.chunk(0).value()), kBytes) == 0);
  CHECK(all_chunks(*passes, memory.scan()) == chunks);
  frozen->thaw();
  CHECK(frozen->record().notes.empty());
  CHECK(target.end() == SIGKILL);
}

TEST_CASE("a pass that runs into unreadable memory tells nothing, and reading goes on") {
  ChunkMemory memory;
  memory.make_unreadable(3);
  WaitingProcess target;
  const auto frozen = std::make_unique<FrozenProcess>(target.pid(), choose(FreezeChoice::kFork));
  const auto passes = passes_over(*frozen);
  REQUIRE(passes != nullptr);
  ChunkScan scan = memory.scan();
  CHECK(passes->scan(scan).empty());
  CHECK(scan.at == memory.chunk(0));
  std::vector<ListScan> lists = memory.lists();
  const AddressRange heap{memory.chunk(0), memory.end()};
  CHECK(passes->follow(lists, std::span(&heap, 1)).empty());
  CHECK(lists[0].chunk == memory.lists()[0].chunk);
  CHECK(frozen->memory().read_value<uint64_t>(memory.chunk(7) + 8) == (kChunkWords * 8 | 1));
  std::vector<std::byte> bytes(kBytes);
  frozen->memory().read(memory.chunk(0) + 4 * 4096, std::span(bytes).first(kBytes - 4 * 4096));
  frozen->thaw();
  CHECK(frozen->record().notes.empty());
  CHECK(target.end() == SIGKILL);
}

TEST_CASE("a target that stands still itself makes no passes") {
  WaitingProcess target;
  const auto stopped = std::make_unique<FrozenProcess>(target.pid(), choose(FreezeChoice::kStop));
  CHECK(passes_over(*stopped) == nullptr);
  CHECK(target.end() == SIGKILL);
}

}  // namespace heapsnap::live
