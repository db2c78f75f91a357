#include "heap/in_place/loop_code.h"

asm(R"(
  .pushsection heapsnap_loops, "ax", @progbits
  .balign 16
heapsnap_loops_entry:
  call *%rax
  int3
heapsnap_loops_trap:
  .popsection
)");

// Everything in the section is taken along; CMakeLists.txt has the options that keep it whole.
#define HEAPSNAP_PORTABLE [[gnu::section("heapsnap_loops"), gnu::flatten, gnu::noinline, gnu::used]]

// NOLINTBEGIN(readability-identifier-naming,bugprone-reserved-identifier): __start_ and __stop_ are
// the linker's names
extern "C" {
HEAPSNAP_PORTABLE static void heapsnap_loops_scan(heapsnap::ScanTask* task) {
  task->count = heapsnap::scan_chunks(task->scan, task->memory, task->answers, task->room);
}

HEAPSNAP_PORTABLE static void heapsnap_loops_follow(heapsnap::ListsTask* task) {
  heapsnap::follow_lists(task->lists, task->count, task->memories);
}

extern const std::byte __start_heapsnap_loops[];
extern const std::byte __stop_heapsnap_loops[];
extern const std::byte heapsnap_loops_entry[];
extern const std::byte heapsnap_loops_trap[];
}
// NOLINTEND(readability-identifier-naming,bugprone-reserved-identifier)

namespace heapsnap {

LoopCode loop_code() {
  const auto offset = [](const void* label) {
    return static_cast<size_t>(static_cast<const std::byte*>(label) - __start_heapsnap_loops);
  };
  LoopCode loops;
  loops.code.bytes = {__start_heapsnap_loops, offset(__stop_heapsnap_loops)};
  loops.code.entry = offset(heapsnap_loops_entry);
  loops.code.trap = offset(heapsnap_loops_trap);
  loops.scan = offset(reinterpret_cast<const void*>(&heapsnap_loops_scan));
  loops.follow = offset(reinterpret_cast<const void*>(&heapsnap_loops_follow));
  return loops;
}

}  // namespace heapsnap
