#include "platform/linux/freeze/own_quota.h"

#include <algorithm>
#include <utility>

#include "platform/linux/freeze/freeze_notes.h"
#include "platform/linux/self/realtime_priority.h"

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

void OwnQuota::add_note(uint64_t earlier_ns, FreezeRecord& record) const {
  if (throttled_.count() <= 0) return;
  if (record.method != FreezeMethod::kStop && gets_realtime_priority()) return;
  // Several processors together may have been kept from its threads for longer.
  const std::chrono::nanoseconds paused(earlier_ns + record.pause_ns + record.reap_pause_ns);
  record.notes.push_back(throttled_note(std::min(throttled_, paused), quota_->group()));
}

}  // namespace heapsnap
