#include "platform/linux/freeze/copied_usage.h"

#include <algorithm>

namespace heapsnap {

MappingUsage usage_at_freeze(const Mapping& mapping, const PageMap::Bytes& own,
                             const MappingUsage& before) {
  if (mapping.shared || mapping.is_anonymous_hugetlb()) return before;
  const uint64_t of_file = before.rss - std::min(before.rss, before.anonymous);
  const uint64_t shared = before.rss - std::min(before.rss, before.pss);
  MappingUsage usage;
  usage.rss = own.resident + of_file;
  usage.pss = usage.rss - std::min(usage.rss, shared);
  usage.anonymous = own.resident;
  usage.swap = own.swapped;
  usage.anon_huge = own.huge;
  usage.hugetlb = before.hugetlb;
  return usage;
}

}  // namespace heapsnap
