// What each hook calls next: the function that the call would have reached without the library.
//
// When preloaded, the library comes before the allocator in the order in which the loader looks up
// symbols. So, separately for each entry point, the next function is the first one that a module
// after us defines, as in a program without us: a program that is linked with jemalloc keeps
// jemalloc, and a block of one allocator never reaches another one's free().
//
// Injected, the entry points of the C library are patched, and the injector writes where the
// displaced code is.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tracker/control.h"

namespace heapsnap::tracker {

// The words that an injector writes to.
struct Originals {
  void* (*malloc)(size_t);
  void (*free)(void*);
  void* (*calloc)(size_t, size_t);
  void* (*realloc)(void*, size_t);
  void* (*memalign)(size_t, size_t);
  void* (*aligned_alloc)(size_t, size_t);
  int (*posix_memalign)(void**, size_t, size_t);
  void* (*valloc)(size_t);
  void* (*pvalloc)(size_t);
  void (*cfree)(void*);  // of glibc before 2.26
};
// At first each looks for all of them and then goes on.
extern HEAPSNAP_OWN Originals originals;

struct BoundAllocator {
  bool is_preloaded;  // we come before the C library
  bool is_glibc;      // every original is the C library's own
  uint64_t malloc;    // address
};

// Looks for the originals, once; safe at any time when the loader has mapped all that the program
// starts with.
const BoundAllocator& bind_originals();

}  // namespace heapsnap::tracker
