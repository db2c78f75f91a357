#include "platform/linux/proc/busy_clock.h"

namespace heapsnap {

namespace {

constexpr std::chrono::microseconds kShortest{100};

}  // namespace

BusyClock::BusyClock(int pid) : is_known_(::clock_getcpuclockid(pid, &clock_) == 0) {
  restart();
}

void BusyClock::restart() {
  used_before_ = used();
  begin_ = std::chrono::steady_clock::now();
}

std::optional<std::chrono::nanoseconds> BusyClock::used() const {
  timespec time{};
  if (!is_known_ || ::clock_gettime(clock_, &time) != 0) return std::nullopt;
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

std::optional<double> BusyClock::processors() const {
  const auto now = used();
  const auto passed = std::chrono::steady_clock::now() - begin_;
  if (!now || !used_before_ || passed < kShortest) return std::nullopt;
  return static_cast<double>((*now - *used_before_).count()) / static_cast<double>(passed.count());
}

}  // namespace heapsnap
