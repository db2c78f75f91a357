// Signal handlers that allocate while the thread that they interrupted is inside a hook.
//
// No program may do that inside of glibc's malloc, so the hooks lead to an allocator here that may
// be called by a handler: it hands out memory in one direction, and gives none back.
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <vector>

#include "tests/live/tracker/loaded_tracker.h"
#include "tracker/table_layout.h"

using namespace heapsnap::tracker;

namespace {

constexpr size_t kAreaSize = size_t{1} << 30;
constexpr size_t kMostBlocks = 1 << 20;
constexpr uint64_t kWanted = 500;  // events inside of others, before it is enough
constexpr std::chrono::seconds kPatience{60};

struct Block {
  void* address;
  size_t size;
  bool is_live;
};

std::byte* area;
std::atomic<size_t> used_area{0};

// With the chunk heads of ptmalloc, in which the tracker reads sizes.
void* malloc_in_one_direction(size_t size) {
  const size_t chunk = std::max<size_t>(32, (size + 8 + 15) / 16 * 16);
  const size_t offset = used_area.fetch_add(chunk);
  if (offset + chunk + 16 > kAreaSize) return nullptr;
  auto* const head = reinterpret_cast<uint64_t*>(area + offset + 8);
  *head = chunk | 1;
  return head + 1;
}
void free_nothing(void* /*block*/) {}

void* (*hooked_malloc)(size_t);
void (*hooked_free)(void*);

// What was allocated by whom; written by the handler too, so without an allocation of its own.
struct Ledger {
  Block* blocks = nullptr;
  size_t count = 0;

  void allocate(size_t size) {
    if (count < kMostBlocks) blocks[count++] = {hooked_malloc(size), size, true};
  }
  void release(size_t number) {
    if (!blocks[number].is_live) return;
    blocks[number].is_live = false;
    hooked_free(blocks[number].address);
  }
};
Ledger of_program;
Ledger of_handler;

void on_alarm(int) {
  of_handler.allocate(1 + of_handler.count % 300);
  if (of_handler.count % 3 == 0) of_handler.release(of_handler.count / 2);
}

// Other frames each time, so that stacks are compared, unwound and entered all the time.
__attribute__((noinline)) void allocate_at(unsigned depth) {
  volatile unsigned room[16];
  room[depth % 16] = depth;
  of_program.allocate(1 + of_program.count % 500);
  if (depth % 4 == 0) of_program.release(of_program.count / 2);
  if (depth != 0) allocate_at(depth - 1);
  if (room[depth % 16] != depth) std::abort();  // keeps the frame
}

void run_alarms(long microseconds) {
  const itimerval interval{{0, microseconds}, {0, microseconds}};
  setitimer(ITIMER_REAL, &interval, nullptr);
}

struct Found {
  uint64_t live = 0, without_stack = 0, wrong = 0;
};

// Each live block has a slot, with its size and a stack to the end where there is one.
Found check_slots(const LoadedTracker& tracker, const Ledger& ledger) {
  Found found;
  for (size_t i = 0; i < ledger.count; ++i) {
    const Block& block = ledger.blocks[i];
    const uint32_t slot = tracker.slot_of(block.address);
    if (!block.is_live) {
      found.wrong += slot != kEmptySlot ? 1 : 0;
      continue;
    }
    ++found.live;
    const uint32_t stack = stack_id_of(slot);
    if (slot == kEmptySlot) {
      ++found.wrong;
    } else if (stack == kStackNotTaken) {
      ++found.without_stack;
    } else {
      const auto& record = tracker.entry_of<StackRecord>(tracker.directory().stacks, stack);
      uint32_t node = record.node;
      while (node >= kFirstNode) {
        node = tracker.entry_of<StackNode>(tracker.directory().nodes, node).parent;
      }
      const uint64_t usable = (static_cast<const uint64_t*>(block.address)[-1] & ~7ULL) - 8;
      const bool is_sound =
          node == kRootComplete && record.depth > 2 && usable - slack_of(slot) == block.size;
      found.wrong += is_sound ? 0 : 1;
    }
  }
  return found;
}

}  // namespace

TEST_CASE("handlers that allocate inside of hooks lose no block and no count") {
  area = static_cast<std::byte*>(mmap(nullptr, kAreaSize, PROT_READ | PROT_WRITE,
                                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  REQUIRE(area != MAP_FAILED);
  std::vector<Block> program_blocks(kMostBlocks);
  std::vector<Block> handler_blocks(kMostBlocks);
  of_program.blocks = program_blocks.data();
  of_handler.blocks = handler_blocks.data();
  const LoadedTracker tracker(0);
  hooked_malloc = tracker.hook("malloc", &malloc_in_one_direction);
  hooked_free = tracker.hook("free", &free_nothing);
  struct sigaction action = {};
  action.sa_handler = on_alarm;
  action.sa_flags = SA_RESTART;
  sigaction(SIGALRM, &action, nullptr);

  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  unsigned rounds = 0;
  while (tracker.directory().nested_events < kWanted) {
    REQUIRE(std::chrono::steady_clock::now() < deadline);
    if (of_program.count > kMostBlocks - 100) break;
    run_alarms(20);
    for (int i = 0; i < 200 && of_program.count < kMostBlocks - 100; ++i) {
      allocate_at(++rounds % 60);
    }
    run_alarms(0);
  }
  MESSAGE(of_handler.count << " blocks of handlers, " << tracker.directory().nested_events
                           << " events inside of hooks, " << of_program.count
                           << " blocks of the program");
  CHECK(tracker.directory().nested_events >= kWanted);
  CHECK(tracker.directory().limits == 0);
  CHECK(tracker.directory().dropped_slots == 0);

  const Found program = check_slots(tracker, of_program);
  const Found handler = check_slots(tracker, of_handler);
  CHECK(program.wrong == 0);
  CHECK(handler.wrong == 0);
  CHECK(program.without_stack == 0);
  CHECK(handler.without_stack > 0);
  const TrackedSums sums = tracker.sums();
  CHECK(sums.allocations == of_program.count + of_handler.count);
  CHECK(sums.allocations - sums.frees == program.live + handler.live);
}
