// Leaves out references by words of which it is known that the program has put no address there: it
// has not written to them since the block was allocated, or they are a FILE's buffer.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/address.h"
#include "references/block_map.h"
#include "references/reference.h"

namespace heapsnap {

class UnsetWords final : public ReferenceSink {
 public:
  // `words`: in blocks of `map`, which is sealed; others do not matter. `next` outlives this.
  UnsetWords(const BlockMap& map, std::span<const AddressRange> words, ReferenceSink& next);

  void on_references(const ReferenceBatch& batch) override;

 private:
  struct Words {
    BlockNumber block = kNoBlock;
    uint32_t begin = 0;
    uint32_t end = 0;
  };
  // The first that do not end before a word, or at it.
  std::vector<Words>::const_iterator first_behind(BlockNumber block, uint32_t offset) const;
  bool contains(BlockNumber block, uint32_t offset) const;

  std::vector<Words> words_;  // ascending, apart
  ReferenceSink& next_;
  // Of a batch in which some are left out:
  std::vector<uint32_t> counts_;
  std::vector<uint32_t> offsets_;
  std::vector<BlockNumber> targets_;
  std::vector<uint8_t> interior_;
};

}  // namespace heapsnap
