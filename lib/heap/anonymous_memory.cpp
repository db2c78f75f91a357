#include "heap/anonymous_memory.h"

#include <algorithm>

namespace heapsnap {
namespace {

bool is_anonymous(const Mapping& mapping) {
  if (mapping.shared) return false;
  if (mapping.is_anonymous_hugetlb()) return true;
  return mapping.is_anonymous() && (mapping.path.empty() || mapping.path.starts_with("[anon"));
}

// From the stack pointer up to the end of the page that holds the thread's control block, which
// glibc puts at the top of the stack it maps. Empty for other stacks.
AddressRange stack_of(const Thread& thread, const AddressSpace& space, uint64_t page_size) {
  if (!thread.registers) return {};
  const Address sp = thread.registers->stack_pointer;
  const Address tp = thread.registers->thread_pointer;
  const Mapping* const mapping = space.find(sp);
  if (mapping == nullptr || tp <= sp || !mapping->range.contains(tp)) return {};
  return {sp.align_down(page_size), tp.align_down(page_size) + page_size};
}

}  // namespace

AnonymousMemory::AnonymousMemory(Target& target, const std::vector<HeapArea>& heaps)
    : target_(target) {
  const AddressSpace& space = target.address_space();
  std::vector<AddressRange> taken;
  for (const HeapArea& heap : heaps) taken.push_back(heap.reserved);
  for (const Thread& thread : target.threads()) {
    const AddressRange stack = stack_of(thread, space, target.process().page_size);
    if (!stack.is_empty()) taken.push_back(stack);
  }
  std::sort(taken.begin(), taken.end());
  for (const AddressRange& range : taken) edges_.insert(edges_.end(), {range.begin, range.end});

  const auto& mappings = space.mappings();
  auto next_taken = taken.begin();
  for (size_t i = 0; i < mappings.size(); ++i) {
    const Mapping& mapping = mappings[i];
    edges_.insert(edges_.end(), {mapping.range.begin, mapping.range.end});
    if (!is_anonymous(mapping) || !mapping.is_private_writable()) continue;

    Address at = mapping.range.begin;
    while (next_taken != taken.end() && next_taken->end <= at) ++next_taken;
    for (auto range = next_taken; at < mapping.range.end; ++range) {
      const bool is_last = range == taken.end() || mapping.range.end <= range->begin;
      const Address end = is_last ? mapping.range.end : range->begin;
      if (at < end) places_.push_back({{at, end}, end});
      if (is_last) break;
      at = std::max(at, range->end);
    }
  }

  // A run goes on where the next place or an unwritable anonymous line is adjacent.
  std::sort(edges_.begin(), edges_.end());
  edges_.erase(std::unique(edges_.begin(), edges_.end()), edges_.end());
  for (size_t i = places_.size(); i-- > 0;) {
    Place& place = places_[i];
    Address end = place.range.end;
    while (i + 1 == places_.size() || places_[i + 1].range.begin != end) {
      const Mapping* const mapping = space.find(end);
      const bool goes_on = mapping != nullptr && mapping->range.begin == end &&
                           is_anonymous(*mapping) && !mapping->is_private_writable();
      if (!goes_on) break;
      end = mapping->range.end;
    }
    place.run_end = end;
    if (i + 1 < places_.size() && places_[i + 1].range.begin == end) {
      place.run_end = places_[i + 1].run_end;
    }
  }
}

bool AnonymousMemory::is_edge(Address address) const {
  if (std::binary_search(edges_.begin(), edges_.end(), address)) return true;
  std::byte byte;
  MemoryReader& memory = target_.memory();
  return memory.read(address, {&byte, 1}) == 0 || memory.read(address - 1, {&byte, 1}) == 0;
}

}  // namespace heapsnap
