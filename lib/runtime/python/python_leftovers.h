// What a Python interpreter leaves in its own memory: objects that were freed and are kept for the
// next of their type, and words that nobody uses any more.
//
//   free_list   | dict | dict | dict | old  | old  |     below numfree, dicts that are free;
//   numfree 3   '--------------------'                   behind, those that were taken since
//
//   since 3.14  | first | 3 |  ─►  | next | type | ..    in place of its count of references
//
//   frames      | main() | load() | locals of functions that have returned |
//               '-----------------' up to datastack_top
//
// A free object keeps its old words: the table of a dict, the items of a tuple. None is a
// reference, but for the link to the next free one. What the interpreter has found as attributes of
// types, and functions, it remembers without owning them; its collector has lists of all objects.
#pragma once

#include <bitset>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/address.h"
#include "runtime/python/python_layout.h"
#include "target/page_cache.h"
#include "target/target.h"

namespace heapsnap {

class PythonLeftovers {
 public:
  // Of `interpreters`, addresses of PyInterpreterState. Nothing where the layout does not say, or
  // where something else is there.
  PythonLeftovers(Target& target, const PythonLayout& layout,
                  std::span<const Address> interpreters);

  static constexpr uint32_t kNoLink = UINT32_MAX;
  struct Free {
    bool is_object = false;   // else a table of a dict
    uint32_t object_at = 0;   // behind the collector's header, if its type has one
    uint32_t link = kNoLink;  // byte of the block that leads to the next free one
  };
  // Whether a block is free, by its address.
  const Free* find(Address block) const {
    if (!filter_[filter_bit(block)]) return nullptr;
    const auto found = free_.find(block.value());
    return found == free_.end() ? nullptr : &found->second;
  }
  // Whether there is an object that nothing refers to: before 3.14, a free one.
  bool is_free(Address at);
  // Words that own nothing: in the interpreters' states, and behind the frames of threads.
  const std::vector<AddressRange>& words() const { return words_; }

 private:
  static constexpr size_t kFilterBits = 1 << 16;
  static size_t filter_bit(Address block) { return block.value() / 16 % kFilterBits; }

  uint64_t count_of(Address interpreter, const PythonLayout::FreeArray& array);
  // Whether what there should be in the array is free.
  bool fits(Address interpreter, const PythonLayout::FreeArray& array);
  bool is_free_in(const PythonLayout::FreeArray& array, Address at);
  bool is_free_table(Address at);
  void add_array(Address interpreter, const PythonLayout::FreeArray& array, bool are_objects);
  void add_lists(Address interpreter, const PythonLayout::FreeList& list);
  void add_caches(Address interpreter);
  void add_collector(Address interpreter);
  void add_frames(Address interpreter);
  void add_chains(Address interpreter, const PythonLayout::FreeChain& chain, bool are_objects,
                  bool have_header);
  // `object_at`: how far behind the block's begin; `link`: behind the object's.
  void add_free(Address object, bool is_object, uint32_t object_at, uint32_t link);

  const PythonLayout& layout_;
  PageCache cache_;
  std::unordered_map<uint64_t, Free> free_;
  std::bitset<kFilterBits> filter_;  // false for most that are not in it
  std::vector<AddressRange> words_;
  uint64_t links_left_ = 1 << 18;  // of chains, to follow
};

}  // namespace heapsnap
