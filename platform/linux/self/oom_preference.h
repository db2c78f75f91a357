// Whom the OOM killer picks when memory runs out: this process, before others (proc(5),
// oom_score_adj).
//
// heapsnap may be in the control group of its target (`docker exec`, a sidecar). What it takes
// there may be the last that the group has, and the largest process, which is killed then, is the
// target.
#pragma once

namespace heapsnap {

// From now on this process and those that it starts: not for one that starts a user's program, or
// that has to outlive it. Where it is not allowed, nothing happens.
void be_first_oom_victim() noexcept;

}  // namespace heapsnap
