// Whether the limits of a process let it map more: RLIMIT_AS, RLIMIT_DATA and, if it locks all its
// memory, RLIMIT_MEMLOCK (setrlimit(2)), and the maximum number of mappings. What we map counts
// towards them, so the target's malloc may fail because of it.
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

// Why `wanted` more bytes would not fit on top of the most that the process has ever mapped, which
// it may map again; nullopt if they fit. Parses the texts of /proc/PID/status and limits.
std::optional<AddressRefusal> find_address_refusal(std::string_view status, std::string_view limits,
                                                   uint64_t wanted);

// Why a process with this many mappings may run out of them: fewer than a thousand are left of
// `most` (vm.max_map_count, as the kernel writes it). nullopt if enough are left. Protecting a page
// in the middle of a mapping takes two more.
std::optional<std::string> find_mapping_refusal(uint64_t mappings, std::string_view most);

// Default stack size of the process's threads: that of the main stack.
uint64_t default_thread_stack(std::string_view limits);

}  // namespace heapsnap
