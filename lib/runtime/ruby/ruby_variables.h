// Ruby's variables that last as long as the process, as variables of the graph of references:
//
//   $queue                 global:  global_tbl (a rb_id_table)  ─►  rb_global_entry | var | id |
//                                                                                      │
//                                                         rb_global_variable | ... | VALUE | ...
//   Registry.@@known       of a class, and of its instances: among the variables of the class
//   Registry.@last         of a class itself: the same
//
// The variables of a class are in a table up to 3.1, and since then in an array whose order its
// shape says. The table of global variables has no symbol: it is found by its entries, which say
// their own number, and by their names.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "references/runtime_objects.h"
#include "runtime/ruby/ruby_classes.h"
#include "runtime/ruby/ruby_constants.h"
#include "runtime/ruby/ruby_id_table.h"
#include "runtime/ruby/ruby_place.h"
#include "target/page_cache.h"
#include "target/target.h"

namespace heapsnap {

class RubyVariables {
 public:
  static constexpr size_t kMostVariables = 1 << 20;

  // All outlive it.
  RubyVariables(Target& target, const RubyPlace& place, RubyClasses& classes,
                RubyConstants& constants);

  void add_globals(RuntimeObjects& objects);
  // Those of a class or module.
  void add_of_class(uint64_t of_class, RuntimeObjects& objects);

 private:
  bool are_globals(const RubyIdTable& table);
  bool is_object_at(uint64_t value);
  void add(Address word, std::string name, RuntimeObjects& objects);
  // "@last", "@@known", "$queue" of an ID; nothing of those that no program can name.
  std::optional<std::string> name_of(uint64_t id);

  Target& target_;
  const RubyPlace& place_;
  RubyClasses& classes_;
  RubyConstants& constants_;
  PageCache cache_;
  uint64_t entries_ = 1 << 22;  // of tables of classes that may still be looked at
};

}  // namespace heapsnap
