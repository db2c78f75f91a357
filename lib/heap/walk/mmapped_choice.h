// Which of the chunks that look mmapped are, by the allocator's own count.
//
// A page of anybody's memory can look like the begin of an mmapped chunk: the RAM of a guest, a
// heap image, metadata of a language runtime, a forgery. What speaks for a look, best first:
//
//   edge   it, or a row of looks that it belongs to, begins or ends at an edge of a mapping
//   row    it begins where another look ends, or the other way round: the kernel puts
//          mapping beside mapping, and merges them with those of others on both sides
//   none   it lies by itself in the midst of a mapping
//
// mp_.n_mmaps and mp_.mmapped_mem say how many there are and of how many bytes:
//
//   all looks balance the books             take all
//   those with edges, or edges and rows, do take these
//   some others do                          take those for which most speaks
//   else                                    take those with edges and rows, and say so
//
// Looks that overlap exclude each other. A sound heap has books that balance: the kernel holds
// all that malloc has mapped, and a look is missed only where its header cannot be read.
//
// Since 2.43 mmapped_mem grows by 2 words more than it should at each mremap() (mremap_chunk()
// forgets the header), so bytes count as equal when the book is over by a small multiple of that.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heap/chunk.h"
#include "heap/walk/anonymous_memory.h"

namespace heapsnap {

struct MmappedCounts {
  bool is_known = false;  // mp_ was found
  uint64_t count = 0;
  uint64_t bytes = 0;
  uint64_t drift_step = 0;  // 0: exact

  bool balance(uint64_t count, uint64_t bytes) const;
};

// Whether no further look is needed to balance the books: all looks do, all but one, or those that
// edges and rows speak for. `looks` in ascending order.
bool is_settled(const std::vector<MmappedChunk>& looks, const AnonymousMemory& memory,
                const MmappedCounts& books);

struct MmappedChoice {
  std::vector<MmappedChunk> chunks;  // ascending, none overlaps another
  std::string complaint;             // a sentence when the books do not balance
  std::string doubt;                 // a sentence when others would balance them just as well
};

// What of `looks` (ascending) is to be believed.
MmappedChoice believed_chunks(const std::vector<MmappedChunk>& looks, const AnonymousMemory& memory,
                              const MmappedCounts& books);

}  // namespace heapsnap
