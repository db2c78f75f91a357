#include "target/address_space.h"

#include <algorithm>

namespace heapsnap {

const Mapping* AddressSpace::find(Address address) const {
  const auto after = std::upper_bound(
      mappings_.begin(), mappings_.end(), address,
      [](Address wanted, const Mapping& mapping) { return wanted < mapping.range.begin; });
  if (after == mappings_.begin()) return nullptr;
  const Mapping& candidate = *std::prev(after);
  return candidate.range.contains(address) ? &candidate : nullptr;
}

AddressRange AddressSpace::writable_run(Address address) const {
  const Mapping* found = find(address);
  if (found == nullptr || !found->is_private_writable()) return {};
  const Mapping* first = found;
  const Mapping* last = found;
  const Mapping* const begin = mappings_.data();
  const Mapping* const end = begin + mappings_.size();
  while (first != begin && (first - 1)->is_private_writable() &&
         (first - 1)->range.end == first->range.begin) {
    --first;
  }
  while (last + 1 != end && (last + 1)->is_private_writable() &&
         (last + 1)->range.begin == last->range.end) {
    ++last;
  }
  return {first->range.begin, last->range.end};
}

}  // namespace heapsnap
