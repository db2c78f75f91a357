// Whether a process may map more, as far as its own limits go: RLIMIT_AS, RLIMIT_DATA and, where
// all is locked, RLIMIT_MEMLOCK of setrlimit(2), and the number of its mappings. What we map counts
// for them, and then malloc of the target fails in place of ours.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace heapsnap {

struct AddressRefusal {
  std::string why;
  std::string options;  // of prlimit(1), to raise the limit
};

// Why `wanted` bytes more would not fit beside the most that the process has ever mapped, which it
// may come to map again. Parses the texts of /proc/PID/status and limits; nothing when they fit.
std::optional<AddressRefusal> find_address_refusal(std::string_view status, std::string_view limits,
                                                   uint64_t wanted);

// Why a process that has so many mappings could come to lack some, of which it may have `most`
// (vm.max_map_count, as the kernel writes it): fewer than a thousand are left. Protecting a page in
// the middle of a mapping takes two.
std::optional<std::string> find_mapping_refusal(uint64_t mappings, std::string_view most);

// The stack that a thread of the process gets which asks for none: of the size of the main stack.
uint64_t default_thread_stack(std::string_view limits);

}  // namespace heapsnap
