// Which of the chunks that look mmapped are, by the allocator's own count.
//
// A page of anybody's memory can look like the begin of an mmapped chunk: the RAM of a guest, a
// heap image, a forgery. mp_.n_mmaps and mp_.mmapped_mem say how many there are and of how many
// bytes; and a real one is bounded by an edge of a mapping or by others of its kind.
//
//   what looks mmapped balances the books          take all
//   what is anchored at an edge balances them      take that
//   one too many, and just one of that size        take the others
//   else                                           take what is anchored, and say so
//
// Since 2.43 mmapped_mem grows by 2 words more than it should at each mremap() (mremap_chunk()
// forgets the header), so bytes count as equal when the book is over by a small multiple of that.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heap/anonymous_memory.h"
#include "heap/chunk.h"

namespace heapsnap {

struct MmappedBooks {
  bool is_known = false;  // mp_ was found
  uint64_t count = 0;
  uint64_t bytes = 0;
  uint64_t drift_step = 0;  // 0: exact

  bool balance(uint64_t count, uint64_t bytes) const;
};

// Whether `looks` balance the books, all of them or all but one: there is no more to be found.
bool is_settled(const std::vector<MmappedChunk>& looks, const MmappedBooks& books);

// What of `looks` (ascending, apart from each other) is to be believed, ascending. `complaint` gets
// a sentence when the books do not balance.
std::vector<MmappedChunk> believed_chunks(const std::vector<MmappedChunk>& looks,
                                          const AnonymousMemory& memory, const MmappedBooks& books,
                                          std::string& complaint);

}  // namespace heapsnap
