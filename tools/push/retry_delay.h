// How long to wait before a request is made again: half a second, and twice as long each time, up
// to half a minute; between half of that and all of it, at random, so that many hosts that failed
// together do not come back together. A server's Retry-After is waited for in full.
#pragma once

#include <cstdint>
#include <optional>

namespace heapsnap {

// A server that asks for more is not waited for.
inline constexpr uint64_t kLongestRetryAfterSeconds = 300;

// Whether an answer with this status may be another one later: 429 and 5xx without 501 (not
// implemented), 505 (HTTP version) and the like, which stay.
bool is_passing_status(int status);

// Milliseconds before attempt `attempt` + 1; the first one is 0. `random` is anything in 0 to 1.
uint64_t retry_delay_ms(unsigned attempt, double random, std::optional<uint64_t> retry_after_s);

}  // namespace heapsnap
