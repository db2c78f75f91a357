// The process of a snapshot that was shared (lib/redaction): its PID, threads and addresses are
// numbered anew, in each snapshot by itself, and mean nothing anywhere else.
#pragma once

#include <cstdint>

#include "target/process.h"

namespace heapsnap {

// (uid_t)-1, which is no user: what Process::uid then is.
inline constexpr uint32_t kNobody = UINT32_MAX;

inline bool is_shared(const Process& process) {
  return process.uid == kNobody;
}

}  // namespace heapsnap
