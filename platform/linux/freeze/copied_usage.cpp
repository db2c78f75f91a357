#include "platform/linux/freeze/copied_usage.h"

#include <algorithm>

#include "platform/linux/freeze/live_view.h"

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

std::vector<MappingUsage> usage_of_copy(const ProcFs& proc, int copy,
                                        const std::vector<Mapping>& mappings,
                                        const MappingsWithUsage& before,
                                        const MissingMemory& missing) {
  std::vector<MappingUsage> usage = attribute_usage(before, mappings);
  PageMap pages(proc, copy);
  std::vector<MappingUsage> by_smaps;  // before 6.7; it takes several times as long
  for (size_t i = 0; i < mappings.size(); ++i) {
    if (const auto kept = missing.bytes_of(mappings[i])) {
      usage[i] = usage_at_freeze(mappings[i], *kept, usage[i]);
      continue;
    }
    // [vdso] and the like hold pages of the kernel.
    const bool is_anonymous = mappings[i].is_anonymous() && !mappings[i].path.starts_with("[v");
    auto own = pages.count(mappings[i].range,
                           is_anonymous ? PageMap::Pages::kAnonymous : PageMap::Pages::kAny);
    if (!own) {
      if (by_smaps.empty()) by_smaps = usage_by_smaps(proc, copy, mappings);
      own = {by_smaps[i].anonymous, by_smaps[i].anon_huge, by_smaps[i].swap};
    }
    usage[i] = usage_at_freeze(mappings[i], *own, usage[i]);
  }
  return usage;
}

}  // namespace heapsnap
