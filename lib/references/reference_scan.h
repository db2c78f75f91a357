// Finds the words that hold addresses in blocks: those of the blocks themselves (references), and
// those of memory outside of malloc (roots).
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "base/address.h"
#include "references/block_map.h"
#include "references/container_storage.h"
#include "references/first_word_filter.h"
#include "references/piece_pipeline.h"
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

// Which first words of blocks of malloc are asked for, and who gets them: not empty where there is
// a filter.
struct FirstWords {
  const FirstWordFilter* filter = nullptr;  // null: none are
  std::function<void(const FirstWord&)> receive;
};

// Looks at all blocks of `map`, which is sealed and has no why_not(): gives their references to
// `references`, and first words on this thread, each in ascending order. `storage`, if not null,
// sees each word that holds the address of a block's first byte. If `start_thread` starts a thread,
// which has ended on return, `references` is called on either thread, but by one at a time; so is
// `storage`, perhaps while `references` is.
ScannedMemory scan_blocks(Target& target, const BlockMap& map, ReferenceSink& references,
                          const FirstWords& first_words, const ScanProgress& progress,
                          ContainerStorage* storage = nullptr,
                          const StartThread& start_thread = {});

// Gives the words in `range`, which is outside of malloc's memory, in ascending order. `storage`:
// as above.
ScannedMemory scan_outside(Target& target, const BlockMap& map, const AddressRange& range,
                           const std::function<void(const FoundWord&)>& receive,
                           ContainerStorage* storage = nullptr);

}  // namespace heapsnap
