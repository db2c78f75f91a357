// Passes over a heap that run where its memory is, so that none of it has to be copied.
//
// A walk needs sixteen bytes of each chunk, and lists have no locality. Copying the heap first
// costs more than the walk itself, and following a list from outside costs a system call per link.
// Where our code can access the memory directly, in the copy-on-write child or over a mapped core,
// only the answers are copied:
//
//   heap:     | size P | size P | size P | ...      4 bytes a chunk, of some hundred of memory
//   answers:  | size, free? | size, free? | ...
//
// A pass reports what is valid and stops before the first thing that is not, which the caller then
// reads and judges.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/address.h"
#include "target/target.h"

namespace heapsnap {

// Chunks of one heap with 8-byte words, front to back. Source: malloc/malloc.c, malloc_chunk.
struct ChunkScan {
  Address at;     // of the first chunk's header; afterwards of the first one that was not told
  Address limit;  // no chunk reaches past it
  Address readable_end;     // headers are read up to here
  uint64_t min_size = 0;    // of a chunk
  uint64_t impossible = 0;  // bits that no size field has set

  bool operator==(const ChunkScan&) const = default;
};

// Chunks of one free list, link by link; a list with back links also from its other end.
struct ListScan {
  Address chunk;      // the first one; afterwards the first one that was not told
  Address previous;   // the one before it, or the bin: what its back link must hold
  Address tail;       // the last one that was not told; null: it is only followed forward
  Address following;  // what its link must hold: the one behind it, or the end (the bin, or null)
  uint64_t size = 0;  // of each chunk; 0: any, and there are back links
  bool is_protected = false;  // links are stored by safe-linking

  bool is_done() const { return chunk == following; }
};

// What one pass told of a list, either way in the order in which it came to them.
struct ListedChunks {
  std::span<const uint64_t> forward;
  std::span<const uint64_t> backward;
};

class HeapPasses {
 public:
  static constexpr uint32_t kFree = 1;
  static constexpr size_t kMostLists = 16;

  virtual ~HeapPasses() = default;

  // The chunks from `scan.at` on, size | kFree where the next header says so (its footer then
  // agrees). Empty: the first one takes a closer look, or no pass can be made there. Valid until
  // the next call.
  virtual std::span<const uint32_t> scan(ChunkScan& scan) = 0;
  // The chunks of up to kMostLists lists, each from its `chunk` on, those in `heaps` (in order,
  // disjoint) and as the list says. All lists in turn, one step each, so that their cache misses
  // overlap. A circular list is followed for ever, some thousand links per call. An answer for each
  // list, with forward ones unless the chunk takes a closer look; none when no pass can be made.
  // Valid until the next call.
  virtual std::span<const ListedChunks> follow(std::span<ListScan> lists,
                                               std::span<const AddressRange> heaps) = 0;
};

// The passes that can be made over the memory of `target`, which outlives them: here where that is
// mapped, or by code that it runs. Nothing where neither is possible.
std::unique_ptr<HeapPasses> passes_over(Target& target);

}  // namespace heapsnap
