#include "platform/linux/proc/resource_limits.h"

#include "platform/linux/proc/kernel_text.h"

namespace heapsnap {

std::optional<uint64_t> soft_limit(std::string_view limits, std::string_view name) {
  while (const auto line = take_line(limits)) {
    if (!line->starts_with(name)) continue;
    std::string_view rest = line->substr(name.size());
    return parse_number(take_word(rest));
  }
  return std::nullopt;
}

}  // namespace heapsnap
