#include "platform/linux/freeze/freeze_estimate.h"

#include <algorithm>
#include <cstdio>

#include "base/count_text.h"
#include "platform/linux/proc/kernel_text.h"
#include "platform/linux/proc/memory_room.h"

namespace heapsnap {

namespace {

// Stopping and resuming, per thread.
constexpr uint64_t kPerThread = 6'000;  // ns
// Per mapping: a fork copies each; `stop` reads the list of them.
constexpr uint64_t kForkPerMapping = 850;   // ns
constexpr uint64_t kStopPerMapping = 1050;  // ns
// An injected clone that copies nothing, and reaping the child.
constexpr uint64_t kFork = 300'000;  // ns
// Page tables: at most 21 ms for the 262144 pages of a GB; huge pages cost far less.
constexpr uint64_t kForkPerMegabyte = 21'000;  // ns
// Reading and walking.
constexpr uint64_t kStopPerMegabyte = 295'000;  // ns
// Reading alone, of memory that nobody has read before, into memory of our own.
constexpr uint64_t kKeepPerMegabyte = 500'000;  // ns
// Looking at each word.
constexpr uint64_t kScanPerMegabyte = 900'000;  // ns

// Of a processor. The least that the kernel lets a control group have is 1 ms in 1 s.
constexpr double kLeastShare = 0.001;

constexpr uint64_t kMegabyte = 1'000'000;

std::chrono::nanoseconds with_share(std::chrono::nanoseconds time, double share) {
  return std::chrono::nanoseconds(static_cast<int64_t>(static_cast<double>(time.count()) / share));
}

}  // namespace

std::string milliseconds_text(std::chrono::nanoseconds time) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f ms", static_cast<double>(time.count()) / 1e6);
  return text;
}

FreezeEstimate estimate_freeze(uint64_t private_bytes, uint64_t threads, uint64_t mappings) {
  const uint64_t copying =
      private_bytes / kMegabyte * kForkPerMegabyte + mappings * kForkPerMapping;
  const uint64_t reading =
      private_bytes / 1000 * kStopPerMegabyte / 1000 + mappings * kStopPerMapping;
  const uint64_t stopping = threads * kPerThread;
  FreezeEstimate result;
  result.private_bytes = private_bytes;
  result.threads = threads;
  result.mappings = mappings;
  result.fork = std::chrono::nanoseconds(kFork + copying + stopping);
  result.stop = std::chrono::nanoseconds(reading + stopping);
  return result;
}

FreezeEstimate estimate_freeze(std::string_view status_text, uint64_t mappings) {
  // RssAnon exists since 4.5; before that, VmRSS is at least not less.
  const auto private_bytes = status_bytes(status_text, "RssAnon");
  return estimate_freeze(private_bytes.value_or(status_bytes(status_text, "VmRSS").value_or(0)),
                         status_number(status_text, "Threads").value_or(1), mappings);
}

FreezeEstimate FreezeEstimate::with_processors(double processors) const {
  FreezeEstimate result = *this;
  result.share = std::clamp(processors, kLeastShare, 1.0);
  result.stop = with_share(stop, result.share);
  return result;
}

FreezeEstimate FreezeEstimate::with_kept(uint64_t bytes) const {
  FreezeEstimate result = *this;
  result.kept_bytes = bytes;
  result.fork +=
      with_share(std::chrono::nanoseconds(bytes / 1000 * kKeepPerMegabyte / 1000), share);
  return result;
}

FreezeEstimate FreezeEstimate::with_scan() const {
  FreezeEstimate result = *this;
  result.stop += std::chrono::nanoseconds(private_bytes / 1000 * kScanPerMegabyte / 1000);
  return result;
}

std::string FreezeEstimate::text() const {
  const std::string kept =
      kept_bytes == 0 ? "" : " and reading the " + size_text(kept_bytes) + " that a fork omits";
  return "copying the page tables of " + size_text(private_bytes) + kept + " should take about " +
         milliseconds_text(fork) + ", reading all of it " + milliseconds_text(stop);
}

}  // namespace heapsnap
