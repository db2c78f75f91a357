// malloc_trim(0), called in a running process.
#pragma once

#include <cstdint>
#include <vector>

#include "platform/linux/inject/injected_thread.h"
#include "tools/inject/heap_look.h"

namespace heapsnap {

struct TrimResult {
  // Resident anonymous bytes of the process: what free() and malloc_trim() can lower. The call
  // itself makes pages of files resident. All resident bytes before Linux 4.5.
  uint64_t anonymous_before = 0;
  uint64_t anonymous_after = 0;
  bool gave_up_pages = false;          // what malloc_trim() says; they need not have been in memory
  std::vector<LookPause> look_pauses;  // before the call
  InjectionResult call;
};

// Makes a thread in `pid` that calls it; nothing stays. Threads that allocate meanwhile wait as
// they would if the program called it. Throws as run_on_injected_thread().
TrimResult trim_process(int pid);

}  // namespace heapsnap
