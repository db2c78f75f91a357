// Instance variables of objects that have no room for any: all but those of an Object, of classes
// and of modules. A subclass of Array, Hash or String may have some, a Struct, a Thread, a Proc.
//
//   generic_iv_tbl_ ──►  a st_table:  | hash | object | variables | hash | object | ..
//                                                         │
//                                                         v
//                                     | count | value | value | ..
//                                     | st_table |      where there were too many shapes, since 3.3
//
// The object keeps what is in them alive, and the table keeps neither: no word of its entries is a
// reference, and the object holds its variables without a word of its own.
//
// The table has no symbol. It is the one that a word of the module's data leads to whose keys are
// objects whose flags say that they have such variables: where there is none, nothing is said.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "references/runtime_objects.h"
#include "runtime/ruby/ruby_graph.h"
#include "runtime/ruby/ruby_objects.h"
#include "runtime/ruby/ruby_place.h"
#include "runtime/ruby/ruby_table.h"
#include "target/page_cache.h"
#include "target/target.h"

namespace heapsnap {

class RubyGenericVariables {
 public:
  // Of more objects than that the rest is left as it was.
  static constexpr size_t kMostObjects = 4 << 20;

  // All outlive it.
  RubyGenericVariables(Target& target, const RubyPlace& place, const RubyShapes& shapes,
                       RubyGraph& graph, RuntimeObjects& objects);

  // After the last slot.
  void add();

 private:
  struct Entry {
    uint64_t object = 0;  // 0: it does not fit, or is deleted
    uint64_t variables = 0;
    uint64_t first_word = 0;  // there
    bool has_table = false;
    bool is_deleted = false;
  };

  std::optional<RubyTable> find();
  bool fits(const RubyTable& table);
  // Entries from `from` on, up to `to`; fewer where they cannot be read.
  std::vector<Entry> read(const RubyTable& table, uint64_t from, uint64_t to);
  // What is at each of them; 0 where it cannot be read.
  std::vector<uint64_t> words_at(std::span<const Address> places);
  void add_entry(const Entry& entry);

  Target& target_;
  const RubyPlace& place_;
  const RubyShapes& shapes_;
  RubyGraph& graph_;
  RuntimeObjects& objects_;
  PageCache cache_;
};

}  // namespace heapsnap
