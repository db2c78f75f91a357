// What malloc_trim(0) would give back if the target called it now, and what it would not.
//
// glibc's malloc_trim (malloc/malloc.c, mtrim() and systrim(); the sources of 2.2x and 2.3x agree):
//   1. malloc_consolidate() merges fastbin chunks with free neighbours, bins and top;
//   2. every chunk in the unsorted bin, and in bins for chunks of a page and more, loses its whole
//      pages after its first six words (fd, bk, fd_nextsize, bk_nextsize must stay readable):
//
//        chunk ─► | 6 W |····|  whole pages: madvise(MADV_DONTNEED)  |····| ◄─ next chunk
//
//   3. only the main arena's top shrinks, by sbrk, keeping MINSIZE + 1 bytes, and only when the
//      program break still is where malloc left it. Tops of other arenas stay as they are.
// Chunks in tcaches count as used for all of this and stay.
//
// Measured on 2.36 x86-64, one program of three threads, against the fall of its Rss: equal to the
// page with default settings, mxfast=160, tcache_count=0 and arena_max=1. Under
// glibc.malloc.hugetlb=1 step 3 rounds to huge pages (since 2.35), so `top` may be too high by up
// to one of them. 2.42 and later were not measured.
#pragma once

#include <cstdint>

namespace heapsnap {

struct TrimEstimate {
  // Bytes in memory and in swap that would be gone, by where they lie.
  uint64_t bins = 0;
  uint64_t top = 0;
  uint64_t swapped = 0;  // of both
  // Bytes of pages of unknown state that would be given up: an upper bound for what else comes
  // back.
  uint64_t unknown = 0;

  uint64_t resident() const { return bins + top; }
  TrimEstimate& operator+=(const TrimEstimate& other) {
    bins += other.bins;
    top += other.top;
    swapped += other.swapped;
    unknown += other.unknown;
    return *this;
  }
  // `other` is a part of this.
  TrimEstimate operator-(const TrimEstimate& other) const {
    return {bins - other.bins, top - other.top, swapped - other.swapped, unknown - other.unknown};
  }
  bool operator==(const TrimEstimate&) const = default;
};

// Free and in memory, and malloc_trim(0) would leave it there. Adds up with
// TrimEstimate::resident() to all free resident bytes.
struct FreeKept {
  uint64_t tcache = 0;      // only the owning thread can use it
  uint64_t bins = 0;        // in pages that used chunks share: fragmentation
  uint64_t main_top = 0;    // less than a page, or the break was moved by somebody else
  uint64_t other_tops = 0;  // of arenas whose top malloc_trim does not touch

  uint64_t total() const { return tcache + bins + main_top + other_tops; }
  bool operator==(const FreeKept&) const = default;
};

}  // namespace heapsnap
