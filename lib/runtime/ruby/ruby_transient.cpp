#include "runtime/ruby/ruby_transient.h"

#include <algorithm>

#include "heap/struct_bytes.h"
#include "runtime/page_amount.h"

namespace heapsnap {

namespace {

constexpr uint64_t kMostBlocks = 1 << 16;

// A struct transient_heap that fits, or nothing.
std::optional<RubyTransientHeap> heap_in(const Target& target, const RubyLayout& layout,
                                         const StructBytes& state, std::vector<Address>& lists) {
  constexpr uint32_t kMostStatus = 2;  // none, marking, escaping
  const auto int_at = [&](uint32_t offset) { return static_cast<uint32_t>(state.int_at(offset)); };
  const Address begin(state.word_at(layout.transient_arena));
  const uint64_t count = int_at(layout.transient_arena_index);
  const uint64_t bytes = count * layout.transient_block_bytes;
  if (begin.is_null() || !begin.is_aligned(layout.transient_block_bytes)) return std::nullopt;
  if (count == 0 || count > kMostBlocks || int_at(layout.transient_blocks) > count ||
      int_at(layout.transient_status) > kMostStatus) {
    return std::nullopt;
  }
  RubyTransientHeap heap;
  heap.arena = {begin, begin + bytes};
  heap.block_bytes = layout.transient_block_bytes;
  heap.promoted = Address(state.word_at(layout.transient_promoted));
  lists.clear();
  bool has_all = true;
  for (const uint32_t list :
       {layout.transient_using, layout.transient_marked, layout.transient_free}) {
    const Address first(state.word_at(list));
    if (first.is_null()) continue;
    has_all &= heap.arena.contains(first) && first.is_aligned(heap.block_bytes);
    if (list != layout.transient_free) lists.push_back(first);
  }
  // Young objects can have none, but then all blocks are free.
  const bool has_lists = !lists.empty() || state.word_at(layout.transient_free) != 0;
  if (!has_all || !has_lists) return std::nullopt;
  for (Address at = heap.arena.begin; at < heap.arena.end;) {
    const Mapping* const mapping = target.address_space().find(at);
    if (mapping == nullptr || !mapping->is_private_writable()) return std::nullopt;
    at = mapping->range.end;
  }
  return heap;
}

// Of each block of a list what is in use. What does not fit ends the list.
void read_list(MemoryReader& memory, const RubyLayout& layout, Address block,
               RubyTransientHeap& heap) {
  constexpr uint32_t kShort = 0xffff;
  const uint64_t header = layout.transient_header_bytes;
  while (!block.is_null() && heap.arena.contains(block) && block.is_aligned(heap.block_bytes)) {
    uint32_t& used = heap.used[(block - heap.arena.begin) / heap.block_bytes];
    const auto index = memory.read_value<uint32_t>(block + layout.transient_index);
    const auto next = memory.read_value<uint64_t>(block + layout.transient_next);
    // One that was seen before is a ring.
    if (used != 0 || !index || !next || (*index & kShort) > heap.block_bytes - header) return;
    used = static_cast<uint32_t>(header + (*index & kShort));
    block = Address(*next);
  }
}

}  // namespace

RubyTransientHeap find_ruby_transient_heap(Target& target, const RubyLayout& layout,
                                           std::span<const AddressRange> data) {
  constexpr uint64_t kMostData = 256 << 20;
  if (!layout.has_transient_heap()) return {};
  std::vector<Address> lists;
  for (const AddressRange& range : data) {
    std::vector<std::byte> bytes(std::min(range.size(), kMostData));
    bytes.resize(target.memory().read(range.begin, bytes));
    const auto words = std::span<const std::byte>(bytes);
    for (size_t offset = 0; offset + layout.transient_bytes <= bytes.size(); offset += 8) {
      const StructBytes state(words.subspan(offset, layout.transient_bytes), 8);
      auto heap = heap_in(target, layout, state, lists);
      if (!heap) continue;
      heap->used.resize(heap->arena.size() / heap->block_bytes);
      for (const Address first : lists) read_list(target.memory(), layout, first, *heap);
      return std::move(*heap);
    }
  }
  return {};
}

std::optional<RuntimeArea> ruby_transient_area(Target& target, const RubyTransientHeap& heap) {
  if (heap.arena.is_empty()) return std::nullopt;
  RuntimeArea area;
  area.range = heap.arena;
  area.is_transient = true;
  PageResidency& residency = target.residency();
  const uint64_t page = std::min(residency.page_size(), heap.block_bytes);
  std::vector<PageState> states(heap.block_bytes / page, PageState::kUnknown);
  for (size_t i = 0; i < heap.used.size(); ++i) {
    if (residency.knows_pages()) residency.read(heap.arena.begin + i * heap.block_bytes, states);
    for (size_t k = 0; k < states.size(); ++k) {
      // What is in use lies at a block's begin.
      const uint64_t before = k * page;
      const uint64_t used =
          heap.used[i] > before ? std::min<uint64_t>(heap.used[i] - before, page) : 0;
      const auto state = std::span<const PageState>(states).subspan(k, 1);
      area.used += amount_in(used, state);
      area.free_in_area += amount_in(page - used, state);
    }
  }
  return area;
}

}  // namespace heapsnap
