#include "heap/walk/anonymous_memory.h"

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

// The parts of `whole` that `cuts` (ascending) take and leave, in ascending order.
template <typename Part>
void cut(AddressRange whole, const std::vector<AddressRange>& cuts, Part part) {
  Address at = whole.begin;
  auto next = std::lower_bound(
      cuts.begin(), cuts.end(), at,
      [](const AddressRange& range, Address address) { return range.end <= address; });
  for (; next != cuts.end() && next->begin < whole.end; ++next) {
    const AddressRange taken{std::max(at, next->begin), std::min(next->end, whole.end)};
    if (at < taken.begin) part(AddressRange{at, taken.begin}, false);
    if (!taken.is_empty()) part(taken, true);
    at = std::max(at, taken.end);
  }
  if (at < whole.end) part(AddressRange{at, whole.end}, false);
}

// In ascending order, without overlap.
std::vector<AddressRange> joined(std::vector<AddressRange> ranges) {
  std::sort(ranges.begin(), ranges.end());
  std::vector<AddressRange> apart;
  for (const AddressRange& range : ranges) {
    if (range.is_empty()) continue;
    if (!apart.empty() && range.begin <= apart.back().end) {
      apart.back().end = std::max(apart.back().end, range.end);
    } else {
      apart.push_back(range);
    }
  }
  return apart;
}

}  // namespace

AnonymousMemory::AnonymousMemory(Target& target, const std::vector<HeapArea>& heaps)
    : target_(target) {
  const AddressSpace& space = target.address_space();
  std::vector<AddressRange> taken;
  for (const HeapArea& heap : heaps) {
    taken.push_back(heap.reserved);
    edges_.insert(edges_.end(), {heap.reserved.begin, heap.reserved.end});
  }
  std::vector<AddressRange> stacks;
  for (const Thread& thread : target.threads()) {
    const AddressRange stack = stack_of(thread, space, target.process().page_size);
    if (stack.is_empty()) continue;
    stacks.push_back(stack);
    edges_.push_back(stack.end);
  }
  taken = joined(std::move(taken));
  stacks = joined(std::move(stacks));
  for (const Mapping& mapping : space.mappings()) {
    edges_.insert(edges_.end(), {mapping.range.begin, mapping.range.end});
    if (is_anonymous(mapping)) add_places(mapping, taken, stacks);
  }
  std::sort(edges_.begin(), edges_.end());
  edges_.erase(std::unique(edges_.begin(), edges_.end()), edges_.end());
  for (size_t i = places_.size(); i-- > 0;) {
    const bool goes_on =
        i + 1 < places_.size() && places_[i + 1].range.begin == places_[i].range.end;
    places_[i].run_end = goes_on ? places_[i + 1].run_end : places_[i].range.end;
  }
}

void AnonymousMemory::add_places(const Mapping& mapping, const std::vector<AddressRange>& heaps,
                                 const std::vector<AddressRange>& stacks) {
  cut(mapping.range, heaps, [&](AddressRange free, bool is_heap) {
    if (is_heap) return;
    if (!mapping.is_private_writable()) {
      places_.push_back({free, free.end, Kind::kUnwritable});
      return;
    }
    cut(free, stacks, [&](AddressRange part, bool is_stack) {
      places_.push_back({part, part.end, is_stack ? Kind::kStack : Kind::kWritable});
    });
  });
}

bool AnonymousMemory::is_on_stack(Address address) const {
  const auto place =
      std::upper_bound(places_.begin(), places_.end(), address,
                       [](Address at, const Place& other) { return at < other.range.end; });
  return place != places_.end() && place->kind == Kind::kStack && place->range.contains(address);
}

bool AnonymousMemory::is_edge(Address address) const {
  if (std::binary_search(edges_.begin(), edges_.end(), address)) return true;
  std::byte byte;
  MemoryReader& memory = target_.memory();
  return memory.read(address, {&byte, 1}) == 0 || memory.read(address - 1, {&byte, 1}) == 0;
}

}  // namespace heapsnap
