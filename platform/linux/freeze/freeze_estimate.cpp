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
// An injected clone that copies nothing, and reaping the child.
constexpr uint64_t kFork = 300'000;  // ns
// Page tables: at most 21 ms for the 262144 pages of a GB; huge pages cost far less.
constexpr uint64_t kForkPerMegabyte = 21'000;  // ns
// Reading and walking.
constexpr uint64_t kStopPerMegabyte = 295'000;  // ns
// Reading alone.
constexpr uint64_t kReadPerMegabyte = 150'000;  // ns

// Of a processor. The least that the kernel lets a control group have is 1 ms in 1 s.
constexpr double kLeastShare = 0.001;

constexpr uint64_t kMegabyte = 1'000'000;

}  // namespace

std::string milliseconds_text(std::chrono::nanoseconds time) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f ms", static_cast<double>(time.count()) / 1e6);
  return text;
}

FreezeEstimate estimate_freeze(uint64_t private_bytes, uint64_t threads) {
  const uint64_t bytes = private_bytes / kMegabyte * kForkPerMegabyte;
  const uint64_t reading = private_bytes / 1000 * kStopPerMegabyte / 1000;
  const uint64_t stopping = threads * kPerThread;
  return {private_bytes, threads, std::chrono::nanoseconds(kFork + bytes + stopping),
          std::chrono::nanoseconds(reading + stopping)};
}

FreezeEstimate estimate_freeze(std::string_view status_text) {
  // RssAnon exists since 4.5; before that, VmRSS is at least not less.
  const auto private_bytes = status_bytes(status_text, "RssAnon");
  return estimate_freeze(private_bytes.value_or(status_bytes(status_text, "VmRSS").value_or(0)),
                         status_number(status_text, "Threads").value_or(1));
}

FreezeEstimate FreezeEstimate::with_processors(double processors) const {
  FreezeEstimate result = *this;
  if (processors < 1) {
    result.stop = std::chrono::nanoseconds(static_cast<int64_t>(static_cast<double>(stop.count()) /
                                                                std::max(processors, kLeastShare)));
  }
  return result;
}

std::chrono::nanoseconds FreezeEstimate::with_kept(uint64_t bytes) const {
  return fork + std::chrono::nanoseconds(bytes / 1000 * kReadPerMegabyte / 1000);
}

std::string FreezeEstimate::text() const {
  return "copying the page tables of " + size_text(private_bytes) + " should take about " +
         milliseconds_text(fork) + ", reading it " + milliseconds_text(stop);
}

}  // namespace heapsnap
