#include "runtime/ruby/ruby_code_tables.h"

#include <algorithm>

#include "runtime/ruby/ruby_value.h"

namespace heapsnap {

void RubyCodeTables::add_of(Address body) {
  constexpr uint64_t kCallBytes = 16;  // struct rb_call_data
  constexpr size_t kMostBodies = 1 << 20;
  if (!RubyValue::is_object(body.value()) || bodies_ >= kMostBodies) return;
  ++bodies_;
  const uint32_t positions = layout_.code_lines + 8;  // struct iseq_insn_info: lines, where each is
  for (const uint32_t numbers : {layout_.code_optional, layout_.code_lines, positions,
                                 layout_.code_line_index, layout_.code_locals}) {
    add_numbers(block_at(body, numbers));
  }
  add_end(body, layout_.code_begin, count_at(body, layout_.code_size) * 8);
  if (layout_.code_calls != RubyLayout::kNone)
    add_end(body, layout_.code_calls, count_at(body, layout_.code_call_count) * kCallBytes);
  if (layout_.code_constants != RubyLayout::kNone)
    add_inline_caches(block_at(body, layout_.code_constants));
  add_catch_table(block_at(body, layout_.code_locals + 8));  // the member behind local_table
}

Address RubyCodeTables::block_at(Address body, uint32_t pointer) {
  const auto block = cache_.word(body + pointer, 8);
  return block && RubyValue::is_object(*block) ? Address(*block) : Address();
}

uint64_t RubyCodeTables::count_at(Address body, uint32_t offset) {
  return cache_.word(body + offset, 4).value_or(0);
}

// struct iseq_catch_table: packed, but its entries are as large as they would be if it were not.
void RubyCodeTables::add_catch_table(Address table) {
  constexpr uint64_t kFirst = 4;
  constexpr uint64_t kEntry = 32;
  constexpr uint64_t kCode = 8;  // of an entry
  constexpr uint64_t kMostEntries = 1 << 12;
  constexpr size_t kMostListed = 4 << 20;
  if (table.is_null()) return;
  const uint64_t count = std::min(count_at(table, 0), kMostEntries);
  for (uint64_t i = 0; i < count && entries_left_ != 0; ++i) {
    --entries_left_;
    const uint64_t at = kFirst + i * kEntry + kCode;
    const auto code = cache_.word(table + at, 8);
    if (!code) return;
    if (!RubyValue::is_object(*code) || Address(*code) == table) continue;
    if (objects_.listed.size() >= kMostListed) return;
    objects_.listed.push_back({table, Address(*code), static_cast<uint32_t>(at / 8)});
  }
}

void RubyCodeTables::add_end(Address body, uint32_t pointer, uint64_t bytes) {
  const Address block = block_at(body, pointer);
  if (!block.is_null() && bytes != 0) objects_.left_over.push_back({block, bytes});
}

void RubyCodeTables::add_numbers(Address table) {
  if (table.is_null()) return;
  objects_.add_block(table, numbers_, [] {
    ObjectClass made;
    made.name = "method code table";
    made.skip = ObjectClass::kNoReferences;
    made.is_exact = true;
    return made;
  });
}

void RubyCodeTables::add_inline_caches(Address caches) {
  if (caches.is_null()) return;
  objects_.add_block(caches, inline_caches_, [] {
    ObjectClass made;
    made.name = "inline caches";
    // What is not of a constant has its value in the middle: /regexp/o.
    made.rows = {0, 3, 2};
    made.is_exact = true;
    return made;
  });
}

}  // namespace heapsnap
