// What a fiber of Ruby keeps under names that a program chooses, as variables of the graph of
// references.
//
//   rb_execution_context_t | local_storage | storage |
//                                │              └─► a Hash          "Fiber.current.storage"
//                                ▼                                  (since 3.2)
//                          rb_id_table  | :rows | value |           "Thread.current[:rows]"
//
// Before 3.0 the table is a st_table.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/address.h"
#include "runtime/ruby/ruby_classes.h"
#include "runtime/ruby/ruby_constants.h"
#include "runtime/ruby/ruby_layout.h"
#include "target/page_cache.h"
#include "target/target.h"

namespace heapsnap {

struct RubyFiberLocal {
  Address word;
  uint64_t value = 0;
  std::string name;
};

class RubyFiberLocals {
 public:
  // All outlive it.
  RubyFiberLocals(Target& target, const RubyLayout& layout, RubyClasses& classes,
                  RubyConstants& constants)
      : layout_(layout), classes_(classes), constants_(constants), cache_(target.memory()) {}

  // Of the rb_execution_context_t at `context`: those of the table by ascending word, then its
  // storage.
  std::vector<RubyFiberLocal> of(Address context);

 private:
  static constexpr size_t kMost = 1 << 16;  // of a fiber

  const RubyLayout& layout_;
  RubyClasses& classes_;
  RubyConstants& constants_;
  PageCache cache_;
};

}  // namespace heapsnap
