// Which words of an object's slot are no references, by what its flags say.
//
//   all of them                                flags
//   strings, numbers that lie in the slot      all but the class
//   what is in the slot: items of arrays,      what is behind the last one: left over
//   members of structs, pairs of hashes
//   what lies elsewhere                        lengths, room, what is behind them in the slot
//   strings and arrays that share what         where that is: it belongs to the other one, which
//   another one has                            they refer to, too
//   hashes                                     hints to find a key by, and other numbers
//   objects, up to 3.1                         the names of their variables, which are the class's
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/address.h"
#include "runtime/ruby/ruby_layout.h"
#include "runtime/ruby/ruby_objects.h"

namespace heapsnap {

inline constexpr uint64_t kRubyMostPairs = 8;  // RHASH_AR_TABLE_MAX_SIZE

// Of a hash with up to eight pairs of key and value: how many there are, or were.
uint64_t ruby_pairs_of_hash(uint64_t flags);

// Of an array that has its items in its slot: how many.
uint64_t ruby_items_in_slot(uint64_t flags, const RubyLayout& layout);

// A bit for each word, as ObjectClass::skip.
uint64_t ruby_words_to_skip(std::span<const std::byte> slot, const RubyLayout& layout,
                            const RubyShapes& shapes);

// Words that an object has in a buffer of its own in a block of malloc. What is behind them there
// is left over.
struct RubyBuffer {
  Address at;  // null: it has none
  uint64_t words = 0;
  uint32_t by = 0;  // word of the slot that leads there
};
// Of arrays, structs and objects.
RubyBuffer ruby_buffer(std::span<const std::byte> slot, const RubyLayout& layout,
                       const RubyShapes& shapes);

}  // namespace heapsnap
