// How often to look at a thread that is not fit before giving up. A thread that is fit part of the
// time is found fit at one look in a few; on a busy machine looks may be so far apart that a time
// limit alone would allow only a handful.
#pragma once

#include <algorithm>
#include <string>

#include "platform/linux/trace/tracee.h"

namespace heapsnap {

class LookPatience {
 public:
  static constexpr int kLeastLooks = 200;
  static constexpr std::chrono::seconds kUsual{5};
  static constexpr std::chrono::seconds kLongest{60};

  // The first look is at `begin`.
  explicit LookPatience(TraceClock::time_point begin) : begin_(begin) {}

  // Whether to look again; counts that look.
  bool bears_another(TraceClock::time_point now) {
    const auto passed = now - begin_;
    if (passed >= kLongest || (passed >= kUsual && looks_ >= kLeastLooks)) return false;
    ++looks_;
    return true;
  }
  TraceClock::time_point end() const { return begin_ + kLongest; }

  // ", each of the 203 times that it was checked in 5 s"
  std::string text(TraceClock::time_point now) const {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now - begin_).count();
    return ", each of the " + std::to_string(looks_) + " times that it was checked in " +
           std::to_string(seconds) + " s";
  }

 private:
  TraceClock::time_point begin_;
  int looks_ = 1;
};

}  // namespace heapsnap
