#include "platform/linux/proc/address_room.h"

#include <algorithm>
#include <array>

#include "base/count_text.h"
#include "platform/linux/proc/kernel_text.h"
#include "platform/linux/proc/memory_room.h"
#include "platform/linux/proc/resource_limits.h"

namespace heapsnap {

namespace {

// ARCH_STACK_DEFAULT_SIZE of glibc, for a main stack without a limit.
constexpr uint64_t kUnlimitedStack = 2 << 20;

// The kernel does not record the peak number of mappings, so this many must be left.
constexpr uint64_t kMappingsLeft = 1000;

struct Bound {
  const char* limit;
  const char* used;
  const char* option;  // of ulimit
  const char* raise;   // options of prlimit
};
constexpr const char* kRaiseSpace = "--as=unlimited --data=unlimited";
constexpr std::array kBounds{Bound{"Max address space", "VmSize", "-v", kRaiseSpace},
                             Bound{"Max data size", "VmData", "-d", kRaiseSpace},
                             Bound{"Max locked memory", "VmLck", "-l", "--memlock=unlimited"}};
constexpr size_t kLockedMemory = kBounds.size() - 1;

// Whether the process seems to have locked all its memory, now and to come (mlockall(2)), under a
// limit: the kernel shows only how much is locked. What we map is locked too, and counts.
bool may_lock_no_more_than_its_limit(std::string_view status, uint64_t size) {
  constexpr uint64_t kMayLockAll = 1 << 14;  // CAP_IPC_LOCK
  const auto capabilities = parse_number(status_field(status, "CapEff").value_or(""), 16);
  return capabilities && (*capabilities & kMayLockAll) == 0 &&
         status_bytes(status, "VmLck").value_or(0) > size / 2;
}

}  // namespace

std::optional<AddressRefusal> find_address_refusal(std::string_view status, std::string_view limits,
                                                   uint64_t wanted) {
  const uint64_t size = status_bytes(status, "VmSize").value_or(0);
  const uint64_t peak = status_bytes(status, "VmPeak").value_or(size);
  const uint64_t beyond = peak > size ? peak - size : 0;
  const bool is_locked = may_lock_no_more_than_its_limit(status, size);
  for (const Bound& bound : kBounds) {
    if (&bound == &kBounds[kLockedMemory] && !is_locked) continue;
    const auto limit = soft_limit(limits, bound.limit);
    if (!limit) continue;
    const uint64_t used = status_bytes(status, bound.used).value_or(0);
    // What it has mapped beyond, and may map again, need not count for this limit; what counts is
    // at most the limit, unless that was lowered.
    const uint64_t most = std::min(used + beyond, std::max(used, *limit));
    if (most <= *limit && wanted <= *limit - most) continue;
    return AddressRefusal{"ulimit " + std::string(bound.option) + " of it is " + size_text(*limit) +
                              ", of which it has used up to " + size_text(most) + ", and " +
                              size_text(wanted) + " more may be needed",
                          bound.raise};
  }
  return std::nullopt;
}

std::optional<std::string> find_mapping_refusal(uint64_t mappings, std::string_view most) {
  const auto limit = parse_number(most);
  if (!limit || mappings + kMappingsLeft <= *limit) return std::nullopt;
  return "it has " + std::to_string(mappings) + " of the " + std::to_string(*limit) +
         " mappings that the kernel allows";
}

uint64_t default_thread_stack(std::string_view limits) {
  return soft_limit(limits, "Max stack size").value_or(kUnlimitedStack);
}

}  // namespace heapsnap
