// Users, as the kernel numbers them.
#pragma once

#include <cstdint>

namespace heapsnap {

// (uid_t)-1, which is no user. Process::uid of a snapshot that was shared (lib/redaction), whose
// threads are numbered anew.
inline constexpr uint32_t kNobody = UINT32_MAX;

}  // namespace heapsnap
