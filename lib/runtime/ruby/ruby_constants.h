// The constants of Ruby's classes and modules, as variables of the graph of references.
//
//   class ─►  rb_id_table  ─►  | key | value | ...       value ─►  rb_const_entry_t | ... | VALUE |
//             capa, num, items   |
//                                v  the number of a name
//   global_symbols: last_id | str | ids ──►  array of arrays of 512 names each
//
// Neither has a symbol, and offsets differ by release. Both are found by what must be in them: the
// table of Object has a constant that is rb_cString, and the name of that constant is "String".
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "references/runtime_objects.h"
#include "runtime/ruby/ruby_classes.h"
#include "runtime/ruby/ruby_layout.h"
#include "runtime/ruby/ruby_place.h"
#include "target/page_cache.h"
#include "target/target.h"

namespace heapsnap {

class RubyConstants {
 public:
  // All outlive it.
  RubyConstants(Target& target, const RubyLayout& layout, const RubyPlace& place,
                RubyClasses& classes);

  bool has_names() const { return names_ != 0; }
  // Of the number of a name, which an ID has above its lowest bits.
  static constexpr unsigned kScopeBits = 4;  // ID_SCOPE_SHIFT
  std::optional<std::string> name_of(uint64_t key);
  // Of an array of Ruby; nothing where there is none, or no such item.
  std::optional<uint64_t> element(uint64_t array, uint64_t index);
  // Those of a class or module: nothing where they were not found.
  void add_variables(uint64_t of_class, RuntimeObjects& objects);

 private:
  static constexpr size_t kMostVariables = 1 << 20;

  void find_table();
  void find_names(Target& target);
  std::optional<uint64_t> table_word(uint64_t of_class);

  const RubyLayout& layout_;
  const RubyPlace& place_;
  RubyClasses& classes_;
  PageCache cache_;
  uint64_t object_ = 0;  // rb_cObject
  uint64_t string_ = 0;
  uint32_t table_offset_ = RubyLayout::kNone;  // in the class's extension, or in its slot
  uint64_t string_key_ = 0;
  uint64_t last_name_ = 0;
  uint64_t names_ = 0;  // 0: not found
  // Of keys to look at: damaged classes could all have the same large table.
  uint64_t keys_ = uint64_t{1} << 24;
};

}  // namespace heapsnap
