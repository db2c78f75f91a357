// What tests of the tracker in running processes look at: the words that a hook could be in, the
// work that was recorded, and how long the threads of the target stood still.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tools/inject/tracking.h"

namespace heapsnap::live {

// Bytes by the address where they begin.
using MappedWords = std::map<uint64_t, std::vector<std::byte>>;

// All code, all data that the loader has made read-only (RELRO), and the sections .got and .got.plt
// of each module, of the files that `pid` has mapped. Bindings are complete in a process that was
// started with LD_BIND_NOW=1 only. Files whose path contains `passed_over`, which may come and go,
// are left out, and so is the tracker.
MappedWords code_and_bindings(pid_t pid, std::string_view passed_over = "\n");
// What differs from `before`, as text; what only `now` has does not count.
std::string changes_of(const MappedWords& before, const MappedWords& now);

// By all threads together; 0 where there is no tracker.
uint64_t recorded_allocations(pid_t pid);

// For what the target does after an injection to be seen.
inline constexpr std::chrono::seconds kInjectionPatience{20};

// How long threads of the target stood still for injections.
class StandstillTimes {
 public:
  void add(const TrackingChange& change);
  // Threads are borrowed one at a time, a few times in a change: the median of the longest time of
  // each change; 0 where there was none.
  std::chrono::nanoseconds median_borrowed() const;
  // "one thread: median 0.41 ms, 99 % 1.20 ms, most 2.31 ms of 2000; all: ..."
  std::string summary() const;

 private:
  std::vector<std::chrono::nanoseconds> longest_;  // of each change
  std::vector<std::chrono::nanoseconds> sums_;     // of each change
  std::vector<std::chrono::nanoseconds> all_;      // each stop of all threads that changed code
};

// A line on standard error now and then, where many rounds are made.
class Progress {
 public:
  Progress(std::string what, int rounds) : what_(std::move(what)), rounds_(rounds) {}
  void step();

 private:
  std::string what_;
  int rounds_;
  int done_ = 0;
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

}  // namespace heapsnap::live
