#include "runtime/ruby/ruby_class_tables.h"

#include "runtime/ruby/ruby_id_table.h"
#include "runtime/ruby/ruby_value.h"

namespace heapsnap {

void RubyClassTables::add_of(uint64_t module) {
  Address place(module);
  if (layout_.class_extension != RubyLayout::kNone) {
    const auto extension = cache_.word(place + layout_.class_extension, 8);
    if (!extension || !RubyValue::is_object(*extension)) return;
    place = Address(*extension);
  }
  add_methods(place);
  add_call_caches(place);
  add_subclasses(place);
}

void RubyClassTables::add_methods(Address place) {
  constexpr uint64_t kItems = 16;  // rb_id_table: three numbers, items
  const auto table = cache_.word(place + layout_.class_methods, 8);
  if (!table || !RubyValue::is_object(*table)) return;
  const auto items = cache_.word(Address(*table) + kItems, 8);
  if (!items || !RubyValue::is_object(*items)) return;
  objects_.add_block(Address(*items), methods_, [] {
    ObjectClass made;
    made.name = "method table";
    made.rows = {0, 2, 0};
    made.is_exact = true;
    return made;
  });
}

void RubyClassTables::add_call_caches(Address place) {
  constexpr uint64_t kCount = 4;  // rb_class_cc_entries: capacity, count, method, calls
  constexpr uint64_t kCalls = 16;
  constexpr uint64_t kCallBytes = 16;
  if (layout_.class_call_caches == RubyLayout::kNone) return;
  const auto first = cache_.word(place + layout_.class_call_caches, 8);
  const auto table = RubyIdTable::at(cache_, first.value_or(0));
  if (!table || table->capacity() > keys_) return;
  keys_ -= table->capacity();
  table->each([&](uint64_t, Address caches, Address) {
    const auto count = cache_.word(caches + kCount, 4);
    const auto calls = cache_.word(caches + kCalls, 8);
    if (count && calls && RubyValue::is_object(*calls))
      objects_.left_over.push_back({Address(*calls), *count * kCallBytes});
    return ++entries_ < kMostEntries;
  });
}

void RubyClassTables::add_subclasses(Address place) {
  constexpr uint64_t kNext = 8;  // rb_subclass_entry: class, next; from 3.1 on also previous
  uint64_t entry = cache_.word(place + layout_.class_subclasses, 8).value_or(0);
  for (; RubyValue::is_object(entry) && entries_ < kMostEntries; ++entries_) {
    objects_.add_block(Address(entry), entry_, [] {
      ObjectClass made;
      made.name = "subclass link";
      made.skip = ~ObjectClass::word_bit(kNext);
      made.is_exact = true;
      return made;
    });
    entry = cache_.word(Address(entry) + kNext, 8).value_or(0);
  }
}

}  // namespace heapsnap
