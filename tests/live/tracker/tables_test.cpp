// What the tables say of each block, seen from inside of a process that runs with the tracker
// preloaded (CTest sets LD_PRELOAD), and of a second copy of the library that is loaded and started
// as heapsnap does.
#include <dlfcn.h>
#include <doctest/doctest.h>
#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tracker/table_layout.h"
#include "tracker/tracker.h"

using namespace heapsnap::tracker;

namespace {

const Directory* directory_of(void* library) {
  const auto* word = static_cast<const uint64_t*>(dlsym(library, kDirectorySymbol));
  return word != nullptr ? reinterpret_cast<const Directory*>(*word) : nullptr;
}
const Directory& preloaded() {
  static const Directory* const directory = directory_of(RTLD_DEFAULT);
  REQUIRE(directory != nullptr);
  return *directory;
}

uint32_t slot_of(const Directory& directory, const void* block) {
  const auto address = reinterpret_cast<uint64_t>(block);
  const auto* root = reinterpret_cast<const uint64_t*>(directory.live_root);
  const auto* leaf = reinterpret_cast<const uint32_t*>(root[address >> kLeafShift]);
  return leaf == nullptr ? 0 : leaf[(address >> kGranuleShift) & (kLeafSlots - 1)];
}

template <typename T>
const T& entry_of(const ChunkedTable& table, uint64_t index) {
  REQUIRE(index < table.count);
  REQUIRE(table.entry_size == sizeof(T));
  const auto* chunks = reinterpret_cast<const uint64_t*>(table.chunks);
  return reinterpret_cast<const T*>(
      chunks[index >> table.chunk_shift])[index & ((1ULL << table.chunk_shift) - 1)];
}

struct Counts {
  uint64_t allocations = 0, frees = 0, allocated_bytes = 0, freed_bytes = 0;
};
Counts counts_of(const Directory& directory, uint32_t stack) {
  const auto& record = entry_of<StackRecord>(directory.stacks, stack);
  Counts counts{record.allocations, record.frees, record.allocated_bytes, record.freed_bytes};
  for (uint64_t i = 0; i < directory.threads.count; ++i) {
    const auto& thread = entry_of<ThreadRecord>(directory.threads, i);
    const auto* pending = reinterpret_cast<const PendingCounts*>(thread.pending);
    for (uint64_t k = 0; k < thread.pending_count; ++k) {
      if (pending[k].stack_id != stack) continue;
      counts.allocations += pending[k].allocations;
      counts.frees += pending[k].frees;
      counts.allocated_bytes += pending[k].allocated_bytes;
      counts.freed_bytes += pending[k].freed_bytes;
    }
  }
  return counts;
}

// A live block: has a stack that leads to main, and its requested size is to be had back.
void check_recorded(void* block, size_t size, bool is_slack_known = true) {
  REQUIRE(block != nullptr);
  const uint32_t slot = slot_of(preloaded(), block);
  REQUIRE(stack_id_of(slot) >= kFirstStack);
  if (is_slack_known) CHECK(malloc_usable_size(block) - slack_of(slot) == size);
  const auto& stack = entry_of<StackRecord>(preloaded().stacks, stack_id_of(slot));
  CHECK(stack.depth > 3);
  uint32_t node = stack.node;
  uint32_t depth = 0;
  for (; node >= kFirstNode; ++depth) node = entry_of<StackNode>(preloaded().nodes, node).parent;
  CHECK(depth == stack.depth);
  CHECK(node == kRootComplete);
}

__attribute__((noinline)) void* from_here(size_t size) {
  void* block = malloc(size);
  asm volatile("" : : "r"(block) : "memory");
  return block;
}

}  // namespace

TEST_CASE("the directory leads to itself") {
  const Directory& directory = preloaded();
  CHECK(directory.magic == kDirectoryMagic);
  CHECK(directory.version == kLayoutVersion);
  CHECK(directory.self == reinterpret_cast<uint64_t>(&directory));
  CHECK(directory.state == kStateRecording);
  CHECK(directory.pid == static_cast<uint32_t>(getpid()));
  CHECK(directory.self % kDirectorySize == 0);
  bool is_listed = false;
  for (uint64_t i = 0; i < directory.regions.count; ++i) {
    is_listed |= entry_of<Region>(directory.regions, i).kind == kRegionDirectory;
  }
  CHECK(is_listed);
}

TEST_CASE("every entry point fills the slot, free empties it") {
  void* block = nullptr;
  for (const size_t size : {size_t{1}, size_t{24}, size_t{25}, size_t{1000}, size_t{20000}}) {
    CAPTURE(size);
    check_recorded(block = malloc(size), size);
    CHECK(reinterpret_cast<uint64_t>(block) % 16 == 0);
    check_recorded(block = realloc(block, size * 3), size * 3);
    check_recorded(block = reallocarray(block, size, 2), size * 2);
    void* const last = block;
    free(block);
    CHECK(slot_of(preloaded(), last) == kEmptySlot);
    check_recorded(block = calloc(size, 2), size * 2);
    CHECK(*static_cast<char*>(block) == 0);
    free(block);
    check_recorded(block = memalign(64, size), size, false);
    CHECK(reinterpret_cast<uint64_t>(block) % 64 == 0);
    free(block);
    check_recorded(block = aligned_alloc(128, size), size, false);
    free(block);
    REQUIRE(posix_memalign(&block, 4096, size) == 0);
    CHECK(reinterpret_cast<uint64_t>(block) % 4096 == 0);
    check_recorded(block, size, false);
    free(block);
    check_recorded(block = valloc(size), size, false);
    free(block);
    check_recorded(block = pvalloc(size), size, false);
    free(block);
    CHECK(slot_of(preloaded(), block) == kEmptySlot);
  }
  check_recorded(block = malloc(1 << 20), 1 << 20, false);  // a mapping of its own
  CHECK(slack_of(slot_of(preloaded(), block)) == kSlackUnknown);
  free(block);
  const std::string text(200, 'x');
  check_recorded(const_cast<char*>(text.data()), 201);
}

// Which alignments are refused changed with glibc 2.38.
TEST_CASE("the C library's own functions decide what is served") {
  void* const libc = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
  REQUIRE(libc != nullptr);
  const auto own = reinterpret_cast<void* (*)(size_t, size_t)>(dlsym(libc, "aligned_alloc"));
  REQUIRE((own != nullptr));
  for (const size_t alignment :
       {size_t{0}, size_t{1}, size_t{3}, size_t{8}, size_t{48}, size_t{4096}}) {
    CAPTURE(alignment);
    errno = 0;
    void* const theirs = own(alignment, 96);
    const int their_error = errno;
    errno = 0;
    void* const block = aligned_alloc(alignment, 96);
    CHECK((block == nullptr) == (theirs == nullptr));
    CHECK(errno == their_error);
    free(block);
    free(theirs);
  }
}

TEST_CASE("what fails leaves everything as it was") {
  volatile size_t huge = ~size_t{0} / 2;
  void* block = malloc(100);
  const uint32_t slot = slot_of(preloaded(), block);
  CHECK(realloc(block, huge) == nullptr);
  CHECK(slot_of(preloaded(), block) == slot);
  errno = 0;
  CHECK(reallocarray(block, huge, 16) == nullptr);
  CHECK(errno == ENOMEM);
  CHECK(slot_of(preloaded(), block) == slot);
  CHECK(malloc(huge) == nullptr);
  CHECK(calloc(huge, 16) == nullptr);
  void* aligned = nullptr;
  CHECK(posix_memalign(&aligned, 3, 16) == EINVAL);
  CHECK(posix_memalign(&aligned, 0, 16) == EINVAL);
  CHECK(posix_memalign(&aligned, 16, huge) == ENOMEM);
  CHECK(realloc(block, 0) == nullptr);  // frees
  CHECK(slot_of(preloaded(), block) == kEmptySlot);
  free(nullptr);
}

TEST_CASE("counts are exact, over threads that come and go") {
  constexpr unsigned kRounds = 1000;
  constexpr unsigned kThreads = 8;
  void* first = from_here(40);
  const uint32_t own_stack = stack_id_of(slot_of(preloaded(), first));
  free(first);
  const Counts before = counts_of(preloaded(), own_stack);
  CHECK(before.allocations == before.frees);
  uint32_t stacks[kThreads] = {};
  for (unsigned round = 0; round < 3; ++round) {
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < kThreads; ++i) {
      threads.emplace_back([&stacks, i] {
        for (unsigned k = 0; k < kRounds; ++k) {
          void* block = from_here(40);
          stacks[i] = stack_id_of(slot_of(preloaded(), block));
          if (k % 4 != 0) free(block);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  for (unsigned i = 1; i < kThreads; ++i) CHECK(stacks[i] == stacks[0]);
  const Counts counts = counts_of(preloaded(), stacks[0]);
  CHECK(counts.allocations == 3 * kThreads * kRounds);
  CHECK(counts.allocated_bytes == 3 * kThreads * kRounds * 40);
  CHECK(counts.frees == 3 * kThreads * kRounds * 3 / 4);
  CHECK(counts.freed_bytes == counts.frees * 40);
}

TEST_CASE("a forked child goes on with tables of its own") {
  void* block = malloc(77);
  const uint32_t slot = slot_of(preloaded(), block);
  int pipe_ends[2];
  REQUIRE(pipe(pipe_ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    char outcome = 'y';
    if (preloaded().pid != static_cast<uint32_t>(getpid())) outcome = 'p';
    if (preloaded().process_generation < 2) outcome = 'g';
    if (slot_of(preloaded(), block) != slot) outcome = 's';
    free(block);
    if (slot_of(preloaded(), block) != kEmptySlot) outcome = 'f';
    void* another = malloc(500);
    if (stack_id_of(slot_of(preloaded(), another)) < kFirstStack) outcome = 'a';
    std::thread([&] {
      void* more = malloc(30);
      if (stack_id_of(slot_of(preloaded(), more)) < kFirstStack) outcome = 't';
    }).join();
    _exit(write(pipe_ends[1], &outcome, 1) == 1 ? 0 : 1);
  }
  char outcome = 0;
  REQUIRE(read(pipe_ends[0], &outcome, 1) == 1);
  CHECK(outcome == 'y');
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(slot_of(preloaded(), block) == slot);
  CHECK(preloaded().pid == static_cast<uint32_t>(getpid()));
  free(block);
  close(pipe_ends[0]);
  close(pipe_ends[1]);
}

TEST_CASE("loaded and started from outside: options, memfd, stop, start") {
  void* library = dlopen(TRACKER_COPY, RTLD_NOW | RTLD_LOCAL);
  REQUIRE_MESSAGE(library != nullptr, dlerror());
  CHECK(directory_of(library) == nullptr);
  const auto start = reinterpret_cast<int (*)(const HeapsnapTrackerOptions*)>(
      dlsym(library, "heapsnap_tracker_start"));
  const auto stop = reinterpret_cast<int (*)()>(dlsym(library, "heapsnap_tracker_stop"));
  REQUIRE((start != nullptr));
  REQUIRE((stop != nullptr));

  HeapsnapTrackerOptions options{sizeof options, kFramesAtMost + 1, 0, 0, -1, 0};
  CHECK(start(&options) == -EINVAL);
  options.max_frames = 10;
  options.flags = HEAPSNAP_TRACKER_INTERPRETER_FRAMES << 1;  // of a later version
  CHECK(start(&options) == -EINVAL);
  options.flags = 0;
  options.table_fd = memfd_create("tables", 0);
  REQUIRE(options.table_fd >= 0);
  REQUIRE(start(&options) == 0);
  const Directory& directory = *directory_of(library);
  CHECK(directory.state == kStateRecording);
  CHECK(directory.max_frames == 10);

  const auto* hooks = reinterpret_cast<const HookEntry*>(directory.hooks);
  const auto hook = [&](const char* name) {
    for (uint32_t i = 0; i < directory.hook_count; ++i) {
      if (strcmp(hooks[i].name, name) == 0) return hooks[i].hook;
    }
    return uint64_t{0};
  };
  const auto hooked_malloc = reinterpret_cast<void* (*)(size_t)>(hook("malloc"));
  const auto hooked_free = reinterpret_cast<void (*)(void*)>(hook("free"));
  REQUIRE((hooked_malloc != nullptr));
  REQUIRE((hooked_free != nullptr));
  for (int cycle = 0; cycle < 3; ++cycle) {
    CAPTURE(cycle);
    void* block = hooked_malloc(123);
    CHECK(stack_id_of(slot_of(directory, block)) >= kFirstStack);

    // The memfd alone gives the same.
    struct Page {
      Directory directory;
    };
    void* page = mmap(nullptr, kDirectorySize, PROT_READ, MAP_SHARED, options.table_fd, 0);
    REQUIRE(page != MAP_FAILED);
    CHECK(static_cast<const Page*>(page)->directory.magic == kDirectoryMagic);
    CHECK(static_cast<const Page*>(page)->directory.stacks.count == directory.stacks.count);
    munmap(page, kDirectorySize);

    // Options change while it runs; blocks stay.
    options.sample_bytes = 1024;
    REQUIRE(start(&options) == 0);
    CHECK(directory.sample_bytes == 1024);
    CHECK(stack_id_of(slot_of(directory, block)) >= kFirstStack);
    hooked_free(block);
    CHECK(slot_of(directory, block) == kEmptySlot);
    options.sample_bytes = 0;
    REQUIRE(start(&options) == 0);

    void* kept = hooked_malloc(55);
    REQUIRE(stop() == 0);
    CHECK(directory.state == kStateDormant);
    CHECK(directory.stacks.count == 0);
    CHECK(slot_of(directory, kept) == kEmptySlot);
    hooked_free(kept);
    hooked_free(hooked_malloc(10));  // dormant hooks still serve
    CHECK(directory.stacks.count == 0);
    REQUIRE(start(&options) == 0);
  }
  CHECK(stop() == 0);
  CHECK(stop() == 0);
  close(options.table_fd);
}
