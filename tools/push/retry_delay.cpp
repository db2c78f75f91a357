#include "tools/push/retry_delay.h"

#include <algorithm>

namespace heapsnap {

bool is_passing_status(int status) {
  constexpr int kTooManyRequests = 429;
  constexpr int kNotImplemented = 501;
  constexpr int kHttpVersion = 505;
  if (status == kNotImplemented || status == kHttpVersion) return false;
  return status == kTooManyRequests || (status >= 500 && status < 600);
}

uint64_t retry_delay_ms(unsigned attempt, double random, std::optional<uint64_t> retry_after_s) {
  constexpr double kFirst = 500;
  constexpr double kMost = 30'000;
  constexpr unsigned kDoublings = 10;
  const double full =
      std::min(kMost, kFirst * static_cast<double>(1U << std::min(attempt, kDoublings)));
  const auto delay = static_cast<uint64_t>(full * (1 + std::clamp(random, 0.0, 1.0)) / 2);
  return std::max(delay, retry_after_s.value_or(0) * 1000);
}

}  // namespace heapsnap
