// Whether a process may map more, as far as its own limits go: RLIMIT_AS and RLIMIT_DATA of
// setrlimit(2). What we map counts for them, and then malloc of the target fails in place of ours.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace heapsnap {

// Why `wanted` bytes more would not fit beside the most that the process has ever mapped, which it
// may come to map again. Parses the texts of /proc/PID/status and limits; nothing when they fit.
std::optional<std::string> find_address_refusal(std::string_view status, std::string_view limits,
                                                uint64_t wanted);

// The stack that a thread of the process gets which asks for none: of the size of the main stack.
uint64_t default_thread_stack(std::string_view limits);

}  // namespace heapsnap
