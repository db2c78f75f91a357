#include "runtime/ruby/ruby_collector.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "heap/struct_bytes.h"
#include "runtime/ruby/ruby_value.h"

namespace heapsnap {

namespace {

bool is_in_page(std::span<const RubyPage> pages, uint64_t page_bytes, uint64_t word) {
  const auto next = std::partition_point(
      pages.begin(), pages.end(), [&](const RubyPage& page) { return page.body.value() <= word; });
  return next != pages.begin() && word - std::prev(next)->body.value() < page_bytes;
}

// Words of the state itself; the others lead to tables, which are the interpreter's.
void add_state(MemoryReader& memory, const RubyLayout& layout, const RubyCollector& collector,
               RuntimeObjects& objects) {
  std::vector<std::byte> bytes(layout.space_bytes);
  bytes.resize(memory.read(collector.space, bytes) / 8 * 8);
  const StructBytes words(bytes, 8);
  for (uint64_t offset = 0; offset < bytes.size(); offset += 8) {
    if (is_in_page(collector.pages, layout.page_bytes, words.word_at(offset)))
      objects.left_over.push_back({collector.space, offset, offset + 8});
  }
}

// Also while it marks: what is on its stack then has been found from a root, or from an object
// that was.
void add_mark_stack(MemoryReader& memory, const RubyLayout& layout, Address space,
                    RuntimeObjects& objects) {
  constexpr unsigned kMostChunks = 1 << 20;
  for (const uint32_t list : {layout.space_mark_chunk, layout.space_mark_cache}) {
    uint64_t chunk = memory.read_value<uint64_t>(space + list).value_or(0);
    for (unsigned i = 0; i < kMostChunks && RubyValue::is_object(chunk); ++i) {
      objects.left_over.push_back({Address(chunk), 0, layout.mark_chunk_next});
      const auto next = memory.read_value<uint64_t>(Address(chunk) + layout.mark_chunk_next);
      if (next == chunk) break;
      chunk = next.value_or(0);
    }
  }
}

// Neither the objects whose object_id was asked for nor those that have a finalizer are kept by
// that, but finalizers are.
void add_tables(MemoryReader& memory, const RubyLayout& layout, Address space,
                RuntimeObjects& objects) {
  constexpr uint64_t kEntries = 48;    // st_table (st.h)
  constexpr uint32_t kEntryWords = 3;  // hash, key, value
  constexpr uint32_t kKey = 1;
  const auto entries_of = [&](uint32_t offset) {
    const auto table = memory.read_value<uint64_t>(space + offset);
    if (!table || !RubyValue::is_object(*table)) return uint64_t{0};
    const auto entries = memory.read_value<uint64_t>(Address(*table) + kEntries);
    return entries && RubyValue::is_object(*entries) ? *entries : 0;
  };
  for (const uint32_t ids : {layout.space_object_of_id, layout.space_id_of_object}) {
    if (const uint64_t entries = entries_of(ids); entries != 0)
      objects.left_over.push_back({Address(entries)});
  }
  const uint64_t finalizers = entries_of(layout.space_finalizers);
  if (finalizers == 0) return;
  ObjectClass made;
  made.name = "finalizers";
  made.rows = {0, kEntryWords, kKey};
  objects.blocks.push_back({Address(finalizers), objects.slots.add_class(std::move(made))});
}

}  // namespace

void add_ruby_collector(MemoryReader& memory, const RubyLayout& layout,
                        const RubyCollector& collector, RuntimeObjects& objects) {
  add_state(memory, layout, collector, objects);
  add_mark_stack(memory, layout, collector.space, objects);
  add_tables(memory, layout, collector.space, objects);
  for (const RubyPage& page : collector.pages) objects.left_over.push_back({page.header});
  if (!collector.promoted.is_null()) objects.left_over.push_back({collector.promoted});
}

}  // namespace heapsnap
