#include "platform/linux/copied_usage.h"

#include <algorithm>

namespace heapsnap {

MappingUsage usage_at_freeze(const Mapping& mapping, const MappingUsage& copy,
                             const MappingUsage& running) {
  if (mapping.shared) return running;
  MappingUsage usage = copy;
  usage.pss = std::min(copy.rss, copy.pss * 2);
  if (mapping.is_anonymous() || mapping.is_anonymous_hugetlb()) return usage;
  // Of a private mapping of a file, the pages that the target had changed are in the copy, the
  // others are still the file's.
  const uint64_t file_rss = running.rss - std::min(running.rss, running.anonymous);
  const uint64_t own_share = std::min(running.pss, running.anonymous / 2);
  usage.rss = copy.anonymous + file_rss;
  usage.pss = copy.anonymous + std::min(file_rss, running.pss - own_share);
  return usage;
}

}  // namespace heapsnap
