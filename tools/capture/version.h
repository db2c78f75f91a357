// What this build calls itself, in --version and in the snapshots that it writes.
#pragma once

namespace heapsnap {

inline constexpr const char* kWriterName = "heapsnap " HEAPSNAP_VERSION;
// As servers are told.
inline constexpr const char* kUserAgent = "heapsnap/" HEAPSNAP_VERSION;

}  // namespace heapsnap
