// Who owns each block: the root that alone leads to it (leading_roots.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/block_facts.h"
#include "analysis/diff_names.h"
#include "analysis/leading_roots.h"
#include "analysis/reference_streams.h"
#include "analysis/snapshot_streams.h"
#include "references/root.h"

namespace heapsnap {

struct BlockOwners {
  std::vector<RootPlace> places;  // as OwningRoots::places
  std::vector<uint32_t> threads;  // as OwningRoots::threads
  LeadingRoots roots;
  BlockSet garbage;  // of language runtimes (garbage_of()), of those that nobody owns
  BlockColumns columns;
};

// At most 32 bytes a block where each has one reference and a half, and eight in the end. Throws
// Error{kBadInput} when blocks and references do not fit together.
BlockOwners find_block_owners(const SnapshotStreams& streams, const ReferenceStreams& references);

// What is known of each block besides its chunk, for rows of blocks: its type, and who owns it,
// by what it is called.
class ExplainedBlocks {
 public:
  // As find_block_owners().
  ExplainedBlocks(const SnapshotStreams& streams, const ReferenceStreams& references,
                  NameScope scope);

  BlockNumber blocks() const { return static_cast<BlockNumber>(owners_.roots.of_blocks.size()); }
  // Number 0 is the unknown type.
  TypeNumber type_of(BlockNumber block) const { return types_[block]; }
  // An index into owner_names(); 0, which has no name: nobody.
  uint32_t owner_of(BlockNumber block) const;
  // Nobody asked for it (snapshot_blocks.h): it has no owner and is not leaked.
  bool is_mallocs_own(BlockNumber block) const { return owners_.columns.is_mallocs_own(block); }
  // A language runtime's garbage is not leaked either.
  bool is_leaked(BlockNumber block) const {
    return owners_.roots.of_blocks[block] == LeadingRoots::kNobody && !is_mallocs_own(block) &&
           !owners_.garbage.contains(block);
  }
  const std::vector<std::string>& owner_names() const { return names_; }

 private:
  BlockOwners owners_;
  LargeArray<TypeNumber> types_;
  std::vector<std::string> names_;
  std::vector<uint32_t> name_of_place_;  // an index into names_
  uint32_t several_ = 0;
};

}  // namespace heapsnap
