// Whom the OOM killer picks when memory runs out: this process, before others (proc(5),
// oom_score_adj).
//
// heapsnap may be in the control group of its target (`docker exec`, a sidecar). What it takes
// there may be the last that the group has, and the largest process, which is killed then, is the
// target.
#pragma once

namespace heapsnap {

// From now on this process and those that it starts. Where that is not allowed, nothing happens.
void be_first_oom_victim() noexcept;

// As before the first call of that. For a process that is about to execute another program;
// async-signal-safe.
void restore_oom_preference() noexcept;

}  // namespace heapsnap
