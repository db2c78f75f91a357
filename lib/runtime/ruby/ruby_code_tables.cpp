#include "runtime/ruby/ruby_code_tables.h"

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
}

Address RubyCodeTables::block_at(Address body, uint32_t pointer) {
  const auto block = cache_.word(body + pointer, 8);
  return block && RubyValue::is_object(*block) ? Address(*block) : Address();
}

uint64_t RubyCodeTables::count_at(Address body, uint32_t offset) {
  return cache_.word(body + offset, 4).value_or(0);
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
