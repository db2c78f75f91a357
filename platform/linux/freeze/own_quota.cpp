#include "platform/linux/freeze/own_quota.h"

#include <algorithm>
#include <utility>

#include "platform/linux/freeze/freeze_notes.h"

namespace heapsnap {

double OwnQuota::processors() const {
  return quota_ ? std::min(quota_->processors(), 1.0) : 1.0;
}

void OwnQuota::begin_pause() noexcept try {
  if (!quota_) return;
  quota_->await_period();
  throttled_before_ = quota_->throttled();
} catch (...) {
  // Out of memory: this pause is not counted.
}

void OwnQuota::end_pause() noexcept try {
  if (!throttled_before_) return;
  throttled_ += quota_->throttled() - *std::exchange(throttled_before_, std::nullopt);
} catch (...) {
  throttled_before_.reset();
}

void OwnQuota::add_note(uint64_t paused_ns, std::vector<std::string>& notes) const {
  if (throttled_.count() <= 0) return;
  // Several processors together may have been kept from its threads for longer.
  const auto time = std::min(throttled_, std::chrono::nanoseconds(paused_ns));
  notes.push_back(throttled_note(time, quota_->group()));
}

}  // namespace heapsnap
