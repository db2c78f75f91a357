// Finds the words that hold addresses in blocks: those of the blocks themselves (references), and
// those of memory outside of malloc (roots).
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "base/address.h"
#include "references/block_map.h"
#include "references/container_storage.h"
#include "references/piece_handover.h"
#include "references/reference.h"
#include "target/target.h"

namespace heapsnap {

struct ScannedMemory {
  uint64_t bytes = 0;             // that were looked at
  uint64_t bytes_in_swap = 0;     // and were left there: their words are missing
  uint64_t bytes_unreadable = 0;  // the same
};

// Called now and then, with the bytes that were looked at; it may throw to give the scan up.
using ScanProgress = std::function<void(uint64_t bytes)>;

// The first word of a block that is in memory.
struct FirstWord {
  BlockNumber block = kNoBlock;
  Address address;  // of the block
  uint64_t value = 0;
  std::span<const std::byte> bytes;  // from there on, past the block's end; live during the call
};

// Looks at all blocks of `map`, which is sealed and has no why_not(): gives their references to
// `references` and the first words of those of malloc, in ascending order, to `first_word`.
// `storage`, if not null, sees each word that holds the address of a block's first byte.
// `references` and `storage` are called on another thread if `start_thread` starts one, which has
// ended on return.
ScannedMemory scan_blocks(Target& target, const BlockMap& map, ReferenceSink& references,
                          const std::function<void(const FirstWord&)>& first_word,
                          const ScanProgress& progress, ContainerStorage* storage = nullptr,
                          const StartThread& start_thread = {});

// Gives the words in `range`, which is outside of malloc's memory, in ascending order. `storage`:
// as above.
ScannedMemory scan_outside(Target& target, const BlockMap& map, const AddressRange& range,
                           const std::function<void(const FoundWord&)>& receive,
                           ContainerStorage* storage = nullptr);

}  // namespace heapsnap
