#include "tools/heapsnap/progress_line.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "tools/heapsnap/error_output.h"

namespace heapsnap {

namespace {
constexpr std::chrono::milliseconds kFirst{500};
constexpr std::chrono::milliseconds kInterval{100};
}  // namespace

ProgressLine::ProgressLine(std::string what, bool quiet)
    : what_(std::move(what)),
      enabled_(!quiet && ::isatty(STDERR_FILENO) == 1),
      next_(std::chrono::steady_clock::now() + kFirst) {}

ProgressLine::~ProgressLine() {
  if (drawn_) std::fputs("\r\033[K", stderr);
}

void ProgressLine::show(uint64_t done, uint64_t total) {
  if (!enabled_) return;
  const auto now = std::chrono::steady_clock::now();
  if (now < next_) return;
  next_ = now + kInterval;
  drawn_ = true;
  const double share = total == 0 ? 1.0 : static_cast<double>(done) / static_cast<double>(total);
  print_notice(fmt::format("\r\033[K{} {:.0f} %", what_, 100.0 * std::min(share, 1.0)));
  std::fflush(stderr);
}

}  // namespace heapsnap
