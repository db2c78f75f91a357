// Gives each step of the copy its time and its priority.
//
// In a burst (step_bursts.h) heapsnap and the copy have real-time priority. The copy has it for
// steps only: one that ran would keep the processor if heapsnap were stopped just then. From when
// it first runs until all steps are taken it has the nice value -20: else it would get no more of a
// processor than any busy thread of the target. Not where the target has a single processor, which
// a copy that runs for seconds would leave it a hundredth of.
#pragma once

#include <chrono>
#include <optional>

#include "platform/linux/freeze/snapshot_child.h"
#include "platform/linux/freeze/step_bursts.h"
#include "platform/linux/self/realtime_priority.h"

namespace heapsnap {

class StepClock {
 public:
  // For all steps together; then each thread that is outside may take a few more.
  static constexpr std::chrono::seconds kMostTime{5};

  // On the thread that takes the steps, as are all calls.
  explicit StepClock(SnapshotChild& child) : child_(child) {}
  StepClock(const StepClock&) = delete;
  StepClock& operator=(const StepClock&) = delete;
  // Leaves the copy as it was, unless it was killed.
  ~StepClock();

  // To be called before each step. Sleeps until the next burst if others would have to wait.
  void tick();
  // To be called before the copy runs instead.
  void leave_steps();
  // Whether steps are taken in bursts only. Never where those are not permitted.
  bool steps_wait() const { return has_bursts_ && bursts_.steps_wait(); }
  bool has_run_out() const { return now_ > begin_ + kMostTime; }
  // How long anything other than a step may take.
  TraceClock::time_point next_look() const { return now_ + kLongestRun; }

 private:
  static constexpr std::chrono::milliseconds kLongestRun{50};

  void end_burst();

  SnapshotChild& child_;
  const TraceClock::time_point begin_ = TraceClock::now();
  TraceClock::time_point now_ = begin_;
  StepBursts bursts_{begin_};
  bool has_bursts_ = false;  // whether the copy got real-time priority in the last burst
  std::optional<RealtimePriority> priority_;  // in a burst
  std::optional<int> nice_before_;            // the copy's, once it has run
};

}  // namespace heapsnap
