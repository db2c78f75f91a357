#include "platform/linux/carried_passes.h"

asm(R"(
  .pushsection heapsnap_passes, "ax", @progbits
  .balign 16
heapsnap_passes_entry:
  call *%rax
  int3
heapsnap_passes_trap:
  .popsection
)");

// Everything in the section is carried; CMakeLists.txt has the options that keep it whole.
#define HEAPSNAP_CARRIED [[gnu::section("heapsnap_passes"), gnu::flatten, gnu::noinline, gnu::used]]

// NOLINTBEGIN(readability-identifier-naming,bugprone-reserved-identifier): __start_ and __stop_ are
// the linker's names
extern "C" {
HEAPSNAP_CARRIED static void heapsnap_passes_scan(heapsnap::CarriedScan* task) {
  task->count = heapsnap::scan_chunks(task->scan, task->memory, task->answers, task->room);
}

HEAPSNAP_CARRIED static void heapsnap_passes_follow(heapsnap::CarriedLists* task) {
  heapsnap::follow_lists(task->lists, task->count, task->memories);
}

extern const std::byte __start_heapsnap_passes[];
extern const std::byte __stop_heapsnap_passes[];
extern const std::byte heapsnap_passes_entry[];
extern const std::byte heapsnap_passes_trap[];
}
// NOLINTEND(readability-identifier-naming,bugprone-reserved-identifier)

namespace heapsnap {

CarriedPasses carried_passes() {
  const auto offset = [](const void* label) {
    return static_cast<size_t>(static_cast<const std::byte*>(label) - __start_heapsnap_passes);
  };
  CarriedPasses passes;
  passes.bytes = {__start_heapsnap_passes, offset(__stop_heapsnap_passes)};
  passes.entry = offset(heapsnap_passes_entry);
  passes.trap = offset(heapsnap_passes_trap);
  passes.scan = offset(reinterpret_cast<const void*>(&heapsnap_passes_scan));
  passes.follow = offset(reinterpret_cast<const void*>(&heapsnap_passes_follow));
  return passes;
}

}  // namespace heapsnap
