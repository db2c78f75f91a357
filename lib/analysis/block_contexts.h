// What blocks of unknown type are, by what holds them: "48 bytes, held by Session+0x18".
//
//   Session | ... | +0x18 ──► 48 bytes        all that are held there are likely of one type
//   std::vector storage   ──► 48 bytes        somewhere in an array: those of one size
//
// A block may be held at several places. What says most of it is chosen: a member of a block whose
// type is known, else a variable, else a place in blocks of one size, an array, or a stack; among
// several of one sort the one that holds most blocks. Places that hold something in fewer than one
// in eight of their blocks come after all others: freed memory that is used again keeps words of
// its last owner where nobody writes to.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "analysis/block_facts.h"
#include "analysis/reference_streams.h"
#include "base/large_memory.h"

namespace heapsnap {

struct BlockContext {
  enum class Holder : uint8_t {
    kNothing = 0,  // leaked
    kType = 1,     // blocks of type `holder`
    kRoot = 2,     // `holder`: index into the places, the first of those with the same name
    kSize = 3,     // blocks of unknown type of `holder` bytes
    kArray = 4,    // larger ones, in which places are not told apart
    kVarious = 5,  // more of these than are told apart
  };
  // Of `held_at`: in an array, far in, or in a root.
  static constexpr uint32_t kSomewhere = UINT32_MAX;

  Holder kind = Holder::kNothing;
  uint32_t holder = 0;
  uint32_t held_at = kSomewhere;  // byte in the holder
  bool operator==(const BlockContext&) const = default;
};

class BlockContexts {
 public:
  // `types`: of each block, 0 where it is unknown; `sizes` and `types` outlive this. `word`: bytes
  // of one. Takes four bytes a block, and a table by type.
  BlockContexts(const ReferenceStreams& references, const BlockSizes& sizes,
                const LargeArray<TypeNumber>& types, unsigned word);

  // A number for the context of a block of unknown type, the same for all blocks of that context.
  uint32_t number(BlockNumber block) const { return chosen_[block] / 2; }
  BlockContext context(uint32_t number) const;

 private:
  template <typename Visit>
  void each_held(const ReferenceStreams& references, Visit visit) const;
  uint32_t kind_of(BlockNumber block) const;
  uint32_t spot_of(BlockNumber source, uint32_t offset) const;
  uint32_t spot_of_root(uint32_t place) const { return first_root_ + root_of_place_[place]; }
  bool is_rare(uint32_t spot) const;
  uint64_t rank_of(uint32_t choice) const;
  void choose(BlockNumber block, uint32_t choice);
  void name_roots();

  const std::vector<RootPlace>& places_;
  const BlockSizes& sizes_;
  const LargeArray<TypeNumber>& types_;
  unsigned word_;
  // Kinds of holders: 0 arrays, then the types, then the sizes in words. Each has as many spots as
  // a structure may have words, and one for the rest. After these each root is a spot; 0 is none.
  uint32_t type_count_;
  std::vector<uint8_t> are_arrays_;  // of each type
  uint32_t words_;
  uint32_t first_root_;
  LargeArray<uint32_t> blocks_;          // of each kind
  LargeArray<uint32_t> held_;            // at each spot
  std::vector<uint32_t> root_of_place_;  // the first one with the same name
  LargeArray<uint32_t> chosen_;  // of each block: twice the spot, and 1 if past its first byte
};

}  // namespace heapsnap
