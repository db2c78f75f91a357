#include "platform/linux/address_room.h"

#include <array>

#include "platform/linux/kernel_text.h"
#include "platform/linux/memory_room.h"
#include "platform/linux/resource_limits.h"

namespace heapsnap {

namespace {

// ARCH_STACK_DEFAULT_SIZE of glibc, for a main stack without a limit.
constexpr uint64_t kUnlimitedStack = 2 << 20;

struct Bound {
  const char* limit;
  const char* used;
  const char* option;  // of ulimit
};
constexpr std::array kBounds{Bound{"Max address space", "VmSize", "-v"},
                             Bound{"Max data size", "VmData", "-d"}};

}  // namespace

std::optional<std::string> find_address_refusal(std::string_view status, std::string_view limits,
                                                uint64_t wanted) {
  const uint64_t size = status_bytes(status, "VmSize").value_or(0);
  const uint64_t peak = status_bytes(status, "VmPeak").value_or(size);
  const uint64_t beyond = peak > size ? peak - size : 0;
  for (const Bound& bound : kBounds) {
    const auto limit = soft_limit(limits, bound.limit);
    if (!limit) continue;
    const uint64_t most = status_bytes(status, bound.used).value_or(0) + beyond;
    if (most <= *limit && wanted <= *limit - most) continue;
    return "ulimit " + std::string(bound.option) + " of it is " + bytes_text(*limit) +
           ", of which it has used " + bytes_text(most) + ", and " + bytes_text(wanted) +
           " more may be needed";
  }
  return std::nullopt;
}

uint64_t default_thread_stack(std::string_view limits) {
  return soft_limit(limits, "Max stack size").value_or(kUnlimitedStack);
}

}  // namespace heapsnap
