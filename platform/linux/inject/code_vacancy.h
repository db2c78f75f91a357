// Waits until no thread of a process is inside certain code that none can enter any more.
#pragma once

#include <chrono>
#include <vector>

#include "base/address.h"
#include "platform/linux/proc/proc_fs.h"
#include "target/memory_reader.h"

namespace heapsnap {

struct VacancyResult {
  bool is_vacant = false;  // false: a thread was inside at each of many looks
  size_t looks = 0;        // at each, all threads were stopped for a moment
  std::chrono::nanoseconds longest_pause{};
};

// A thread is inside if it executes `code` or will soon return into it (malloc_exit.h). Stops all
// threads for a look and resumes them, again and again. Throws as an attach does.
VacancyResult await_vacancy(const ProcFs& proc, int pid, const std::vector<AddressRange>& code,
                            MemoryReader& memory);

}  // namespace heapsnap
