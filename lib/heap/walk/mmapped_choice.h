// Decides which of the places that look like mmapped chunks are, by the allocator's own counters.
//
// Any page of memory can look like the start of an mmapped chunk: the RAM of a guest, a heap image,
// metadata of a language runtime, a forgery. The evidence for such a place (a "look"), best first:
//
//   edge   it, or a row of looks that it belongs to, begins or ends at an edge of a mapping
//   row    it begins where another look ends, or the other way round: the kernel puts
//          mapping beside mapping, and merges them with those of others on both sides
//   none   it lies by itself inside a mapping
//
// mp_.n_mmaps and mp_.mmapped_mem say how many there are and of how many bytes:
//
//   all looks match the counters             take all
//   those with edges, or edges and rows, do  take these
//   some others do                           take those with the best evidence
//   else                                     take those with edges and rows, and report it
//
// Looks that overlap exclude each other. A sound heap matches its counters: everything that malloc
// has mapped is there, and a look is missed only if its header cannot be read.
//
// Since 2.43 mmapped_mem grows by 2 words more than it should at each mremap() (mremap_chunk()
// forgets the header), so bytes count as equal if mmapped_mem exceeds them by a small multiple of
// that.
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

  bool matches(uint64_t count, uint64_t bytes) const;
};

// Whether no further look is needed to match the counters: all looks match, or all but one, or
// those with edges and rows. `looks` in ascending order.
bool is_settled(const std::vector<MmappedChunk>& looks, const AnonymousMemory& memory,
                const MmappedCounts& counters);

struct MmappedChoice {
  std::vector<MmappedChunk> chunks;  // ascending, none overlaps another
  std::string complaint;             // a sentence when the counters do not match
  std::string doubt;                 // a sentence when others would match them just as well
};

// Which of `looks` (ascending) are taken for chunks.
MmappedChoice believed_chunks(const std::vector<MmappedChunk>& looks, const AnonymousMemory& memory,
                              const MmappedCounts& counters);

}  // namespace heapsnap
