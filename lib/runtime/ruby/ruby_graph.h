// What the graph of references needs to know of Ruby's objects: their classes, with the words of
// slots that are no references.
//
//   all of them                                flags
//   strings, numbers that lie in the slot      all but the class
//   what code remembers of a constant          its value
//   characters in a block of malloc            all of it
//   a small hash                               what is behind its last pair
//   strings and arrays that share what         where that is: it belongs to the other one, which
//   another one has                            they refer to, too
//   objects, up to 3.1                         the names of their variables, which are the class's
//
// What a dead object leads to that the collector has not freed yet is garbage as it is itself. Dead
// ones are classes of their own: "Order (unswept)".
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "references/runtime_objects.h"
#include "runtime/ruby/ruby_constants.h"
#include "runtime/ruby/ruby_layout.h"
#include "runtime/ruby/ruby_pages.h"
#include "runtime/ruby/ruby_sums.h"
#include "runtime/ruby/ruby_types.h"
#include "runtime/ruby/ruby_variables.h"

namespace heapsnap {

class RubyGraph {
 public:
  static constexpr uint64_t kMostPairs = 8;  // RHASH_AR_TABLE_MAX_SIZE

  // All outlive it.
  RubyGraph(const RubyLayout& layout, const RubyTypes& types, RuntimeObjects& objects)
      : layout_(layout), types_(types), objects_(objects) {}

  // Then those of its slots that are used, ascending.
  void add_page(const RubyPage& page, uint64_t page_bytes);
  void add_object(uint32_t index, Address at, const RubyOwner& owner,
                  std::span<const std::byte> slot, bool is_dead);
  // A st_table in a block of malloc, with its `header`, and what it has besides: an index of its
  // entries (bins), and these.
  void add_table(Address table, std::span<const std::byte> header);
  // One of no type that there is.
  void add_other(uint32_t index) { objects_.slots.add_slot(index, SlotMap::kBuffers); }
  // After the last slot: global ones, and those of classes and modules.
  void add_variables(RubyConstants& constants, RubyVariables& variables);

 private:
  // What objects have in common that are one class of the graph.
  struct Kind {
    uint64_t skip = 0;      // words
    uint32_t of_class = 0;  // number, and one; 0: none
    uint32_t type = 0;
    bool is_dead = false;
    bool operator==(const Kind&) const = default;
  };
  struct Recent {
    Kind kind;
    uint32_t number = SlotMap::kBuffers;
  };
  struct KindHash {
    size_t operator()(const Kind& kind) const {
      const uint64_t key =
          uint64_t{kind.of_class} << 32 | kind.type << 1 | (kind.is_dead ? 1U : 0U);
      return ((key ^ kind.skip << 20) * 0x9e3779b97f4a7c15) >> 32;
    }
  };
  // Where the characters of a string are that has a block of malloc: nothing there is a reference,
  // though the block may have been something else before.
  void add_string_bytes(std::span<const std::byte> slot);
  // Behind the items of an array that has room for more.
  void add_array_end(std::span<const std::byte> slot);
  // Where the pairs of a small hash are (up to 3.1).
  void add_hash_pairs(std::span<const std::byte> slot);
  void add_block(uint64_t at, uint32_t& of_class, const char* name, uint64_t skip,
                 bool is_exact = false);
  uint32_t make_class(const RubyOwner& owner, const Kind& kind);

  const RubyLayout& layout_;
  const RubyTypes& types_;
  RuntimeObjects& objects_;
  std::unordered_map<Kind, uint32_t, KindHash> classes_;
  std::array<Recent, 1024> recent_{};          // most objects are what one before was
  uint32_t string_bytes_ = SlotMap::kBuffers;  // until there is one, as those below
  uint32_t table_ = SlotMap::kBuffers;
  uint32_t table_bins_ = SlotMap::kBuffers;
  uint32_t table_entries_ = SlotMap::kBuffers;
  std::array<uint32_t, kMostPairs + 1> hash_pairs_{};  // the same, by how many there are
  std::vector<uint64_t> modules_;                      // and classes
};

}  // namespace heapsnap
