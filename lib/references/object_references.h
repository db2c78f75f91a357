// What the words of a language runtime's objects mean, applied to the references that a scan finds:
//
//   - a variable's word is a root, and no reference of the table that it lies in;
//   - words that are left over are none, either;
//   - what was found in words of an object that lie apart is added to its references, as is what it
//     holds by a list;
//   - words of objects in blocks of malloc that are no references are left out, as those of slots
//     were before (slot_map.h), and a reference to where such an object begins is none past its
//     block's first byte;
//   - what is held by links alone has no other references to its first byte;
//   - a word that leads to a buffer of the object says what kind of buffer its target is.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "base/large_memory.h"
#include "references/apart_scan.h"
#include "references/block_map.h"
#include "references/reference.h"
#include "references/runtime_objects.h"

namespace heapsnap {

class ObjectReferences final : public ReferenceSink {
 public:
  // A variable, by its index in RuntimeObjects::variables, and what it leads to.
  using ReceiveVariable = std::function<void(uint32_t variable, BlockNumber target, bool interior)>;

  // `map`, which is sealed and has the slots, `objects` and `next` outlive this. (The slots of
  // `objects` itself are not looked at.)
  ObjectReferences(const BlockMap& map, const RuntimeObjects& objects, ReferenceSink& next,
                   ReceiveVariable receive);

  // Before the first batch; in any order.
  void add_apart_found(std::vector<ApartReference> apart);
  void on_references(const ReferenceBatch& batch) override;

  // The class of a block of malloc that is an object; 0: none.
  uint32_t class_of(BlockNumber block) const {
    return block < of_block_.size() ? of_block_[block] : 0;
  }
  // Whether it is there, `inside` of a block of malloc, that its object begins.
  bool begins_inside(BlockNumber block, uint8_t inside) const {
    const uint32_t object_at = map_.slots().classes()[class_of(block)].object_at;
    return object_at != 0 && how_far_inside(object_at) == inside;
  }
  // The kind of a buffer, an index into RuntimeObjects::buffer_kinds, and one; 0: not known.
  uint8_t buffer_kind(BlockNumber block) const { return kinds_[block]; }

 private:
  struct Word {
    BlockNumber block = kNoBlock;
    uint32_t offset = 0;
    uint32_t variable = 0;
    auto operator<=>(const Word&) const = default;
  };
  struct Words {  // of a block, left over
    BlockNumber block = kNoBlock;
    uint64_t first = 0;
    uint64_t end = 0;
    auto operator<=>(const Words&) const = default;
  };
  // Of a slot or a block of malloc.
  const ObjectClass& known_class(BlockNumber block) const {
    const BlockNumber first_slot = map_.first_slot();
    const SlotMap& slots = map_.slots();
    return slots
        .classes()[block < first_slot ? of_block_[block] : slots.class_number(block - first_slot)];
  }
  // Whether a word of the class leads to a block that it does not hold.
  bool only_knows(const ObjectClass& source, uint32_t offset, BlockNumber target,
                  bool interior) const;
  void find_words(const RuntimeObjects& objects);
  // The block and the number of a word in it.
  std::optional<std::pair<BlockNumber, uint64_t>> find_word(Address at, BlockMap::Hint& hint) const;
  // Those of this block, which ends with them.
  void add_listed(const RuntimeObjects& objects);
  void sort_apart();
  // Those whose offset is less than `end`. `first`: where the references of its part begin.
  void add_apart(BlockNumber source, size_t first, uint64_t end);
  // Asked in ascending order, of what begins() says that it has some.
  const Word* word_at(BlockNumber block, uint32_t offset);
  bool is_left_over(BlockNumber block, uint64_t offset);
  template <typename Each>
  static bool begins(const std::vector<Each>& words, size_t& next, BlockNumber block);

  const BlockMap& map_;
  bool have_links_ = false;  // some of the classes
  ReferenceSink& next_;
  ReceiveVariable receive_;
  LargeArray<uint32_t> of_block_;  // of malloc: class, 0 none
  LargeArray<uint8_t> kinds_;      // of all blocks
  std::vector<Word> words_;        // of variables, ascending
  size_t next_word_ = 0;
  std::vector<Words> left_over_;  // ascending
  size_t next_left_over_ = 0;
  std::vector<ApartReference> apart_;  // ascending
  size_t next_apart_ = 0;
  std::vector<uint32_t> counts_;
  std::vector<uint32_t> offsets_;
  std::vector<BlockNumber> targets_;
  std::vector<uint8_t> interior_;
};

}  // namespace heapsnap
