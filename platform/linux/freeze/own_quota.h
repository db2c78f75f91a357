// What the CPU quota of heapsnap's own control group does to a pause: the target stays stopped
// while heapsnap may not run (self/cpu_quota.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "platform/linux/freeze/freeze_options.h"
#include "platform/linux/self/cpu_quota.h"

namespace heapsnap {

class OwnQuota {
 public:
  OwnQuota() : quota_(CpuQuota::of_self()) {}

  // That heapsnap may keep busy; at most 1, since one thread of it does what prolongs a pause.
  double processors() const;
  // To be called around whatever stops the target. The first one waits until the whole quota is
  // there, at most for a little more than a period of it.
  void begin_pause() noexcept;
  void end_pause() noexcept;
  // To `record`, if heapsnap could not run for some time in its pauses and those before, which took
  // `earlier_ns`. A quota does not bind a thread with real-time priority. If heapsnap gets that, it
  // has it in all of the pause of a copy, so only a `stop`, in which it reads on without, can have
  // taken longer.
  void add_note(uint64_t earlier_ns, FreezeRecord& record) const;

 private:
  std::optional<CpuQuota> quota_;
  std::optional<std::chrono::nanoseconds> throttled_before_;  // the pause, while it lasts
  std::chrono::nanoseconds throttled_{0};                     // in pauses
};

}  // namespace heapsnap
