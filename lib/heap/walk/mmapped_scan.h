// Finds chunks that have a mapping of their own.
//
// Nothing links to them; mp_ only counts them. Such a chunk begins its mapping, so its header is at
// the start of a page of private anonymous memory:
//
//   page ──►  | prev_size = 0 | size, only IS_MMAPPED set | what malloc returned ...
//
// size is the whole mapping up to 2.42, and 2 words less since 2.43 (614cfd0f8a), when bit 0 of
// prev_size came to mean huge pages (921e251e8f). On i386 all of it is 8 bytes further up.
//
// Two things move the header away from there. memalign() writes a second one, just before the
// aligned address, whose prev_size is its distance from the mapping's begin; between both the
// memory is zero (with glibc.malloc.perturb: one and the same byte), and the first header stays,
// stale. realloc() of that by mremap() changes the second header only.
//
//   page ──►  | 0 | stale size | 0 0 0 ... 0 | distance | size | what memalign returned ...
//
// The search looks at the begins of all places in anonymous memory first and jumps from chunk to
// chunk; that finds all of them in most processes. What is still missing by mp_'s count is searched
// page by page; what has no edge of a mapping at either end may be none, so there the search goes
// on inside. mmapped_choice.h chooses among what was found.
#pragma once

#include <optional>
#include <vector>

#include "heap/chunk.h"
#include "heap/chunk_format.h"
#include "heap/walk/anonymous_memory.h"
#include "heap/walk/page_heads.h"
#include "target/page_cache.h"
#include "target/target.h"

namespace heapsnap {

class MmappedScan {
 public:
  static constexpr size_t kMostChunks = 1 << 20;  // glibc's own limit is 65536 by default
  static constexpr unsigned kMostQuestions = 1000;

  // All must outlive this. `less_header`: the encoding of 2.43 and later.
  MmappedScan(Target& target, PageCache& cache, const AnonymousMemory& memory,
              const ChunkFormat& format, bool less_header);

  // Chunks that begin a place, and those that follow each other from there on.
  void search_begins();
  // The rest, page by page, in small places first. After each place `is_complete` is asked, which
  // takes a look at all that was found: not before there are `wanted` chunks, and not for ever, as
  // wrong counters never match.
  template <typename IsComplete>
  void search_pages(uint64_t wanted, IsComplete is_complete) {
    unsigned questions = 0;
    for (const size_t place : places_by_size()) {
      search_place(place);
      if (count() < wanted || questions == kMostQuestions) continue;
      ++questions;
      if (is_complete()) return;
    }
  }
  // How many were found; some may lie inside of others.
  uint64_t count() const { return found_.size(); }
  // In ascending order of address, without repetition. `state` and `instance` are not set.
  const std::vector<MmappedChunk>& found();

 private:
  std::optional<MmappedChunk> chunk_at(Address page, PageHeads::Head head, Address run_end);
  // Where in the first `room` bytes of the mapping that begins at `page` memalign() may have
  // written a header: the first place behind the first header that is not as malloc left it.
  std::optional<uint64_t> moved_header(Address page, uint64_t room);
  std::optional<MmappedChunk> header_at(Address page, uint64_t offset, Address end);
  bool take(const MmappedChunk& chunk);
  bool is_there(Address page);
  std::vector<size_t> places_by_size() const;
  void search_place(size_t place);
  uint64_t word(const std::byte* from) const;
  uint64_t repeated_byte(uint64_t value) const;

  PageCache& cache_;
  MemoryReader& memory_reader_;
  PageResidency& residency_;
  const AnonymousMemory& memory_;
  ChunkFormat format_;
  bool less_header_;
  uint64_t page_size_;
  PageHeads heads_;
  std::vector<Address> searched_to_;  // for each place
  std::vector<MmappedChunk> found_;
  bool is_sorted_ = true;
  uint64_t pages_budget_ = 64 << 20;  // looked at in search of moved headers, in all
};

}  // namespace heapsnap
