#include "platform/linux/freeze/copied_page_map.h"

#include <algorithm>
#include <vector>

namespace heapsnap {

namespace {

// Whether fork(2) copied all of its page tables.
bool is_copied(const Mapping& mapping) {
  return !mapping.shared && (mapping.is_anonymous() || mapping.is_anonymous_hugetlb());
}

}  // namespace

void CopiedPageMap::read(Address first_page, std::span<PageState> out) {
  while (!out.empty()) {
    size_t count = missing_.states(first_page, out);
    if (count == 0) {
      const uint64_t pages = (missing_.next_begin(first_page) - first_page) / page_size();
      count = std::min<uint64_t>(out.size(), pages);
      read_copied(first_page, out.first(count));
    }
    first_page += count * page_size();
    out = out.subspan(count);
  }
}

Address CopiedPageMap::absent_until(AddressRange range) {
  if (missing_.holds(range.begin)) return missing_.absent_until(range);
  range.end = std::min(range.end, missing_.next_begin(range.begin));
  const Mapping* const mapping = space_.find(range.begin);
  if (mapping == nullptr) return range.begin;
  range.end = std::min(range.end, mapping->range.end);
  const Address end = child_.absent_until(range);
  if (is_copied(*mapping) || end == range.begin) return end;
  return parent_.absent_until({range.begin, end});
}

void CopiedPageMap::read_copied(Address first_page, std::span<PageState> out) {
  const uint64_t page = page_size();
  const AddressRange asked{first_page, first_page + out.size() * page};
  const auto& mappings = space_.mappings();
  auto mapping = std::lower_bound(
      mappings.begin(), mappings.end(), asked.begin,
      [](const Mapping& candidate, Address address) { return candidate.range.end <= address; });
  if (mapping != mappings.end() && mapping->range.contains(asked.begin, asked.size()) &&
      is_copied(*mapping)) {
    child_.read_anonymous(first_page, out);
    return;
  }
  child_.read(first_page, out);
  std::vector<PageState> of_parent;
  for (; mapping != mappings.end() && mapping->range.begin < asked.end; ++mapping) {
    if (is_copied(*mapping)) continue;
    const Address begin = std::max(mapping->range.begin, asked.begin);
    const Address end = std::min(mapping->range.end, asked.end);
    const std::span<PageState> part =
        out.subspan((begin - asked.begin) / page, (end - begin) / page);
    of_parent.resize(part.size());
    parent_.read(begin, of_parent);
    for (size_t i = 0; i < part.size(); ++i) {
      // A page of the child's own is a copy that the parent made before the fork.
      if (part[i] != PageState::kResident) part[i] = of_parent[i];
    }
  }
}

}  // namespace heapsnap
