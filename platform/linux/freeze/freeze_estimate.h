// How long each way of freezing a target would pause it.
//
// The numbers behind it were measured (docs/freezing.md, tests/bench/pause_bench.cpp); they need
// not be exact, since from a few megabytes on the two ways are an order of magnitude apart.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace heapsnap {

struct FreezeEstimate {
  uint64_t private_bytes = 0;  // resident, anonymous
  uint64_t threads = 0;
  uint64_t mappings = 0;
  uint64_t kept_bytes = 0;  // that a fork omits
  double share = 1;         // of a processor, that heapsnap gets
  std::chrono::nanoseconds fork{0};
  std::chrono::nanoseconds stop{0};

  bool prefers_fork() const { return fork < stop; }
  // If heapsnap, which reads, gets only so much of a processor; a fork is made by the target. Call
  // it after with_scan() and before with_kept(): the latter counts with this share.
  FreezeEstimate with_processors(double processors) const;
  // If this many bytes, which a fork omits, are read from the target while it is stopped.
  FreezeEstimate with_kept(uint64_t bytes) const;
  // If all private memory is scanned, which for `stop` is while the target is stopped.
  FreezeEstimate with_scan() const;
  // "copying the page tables of 1.0 GiB should take about 22.9 ms, reading all of it 316.8 ms"
  std::string text() const;
};

// "14.1 ms"
std::string milliseconds_text(std::chrono::nanoseconds time);

FreezeEstimate estimate_freeze(uint64_t private_bytes, uint64_t threads, uint64_t mappings);
// The same from the text of /proc/PID/status.
FreezeEstimate estimate_freeze(std::string_view status_text, uint64_t mappings);

}  // namespace heapsnap
