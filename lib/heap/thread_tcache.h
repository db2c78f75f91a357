// Finds, in the thread-local storage of each thread, its tcache and the arena that it uses.
//
// malloc keeps two thread-local words, `tcache` and `thread_arena`, somewhere in libc's TLS block:
//
//   thread pointer + tls_offset                                          + tls_size
//     | errno | ... | tcache ──► tcache_perthread_struct | ... | thread_arena ──► malloc_state |
//
// Their place inside the block differs by version and by build, so the block (0x78 to 0x98 bytes)
// is scanned: thread_arena is the word that is one of the arenas, tcache the word that points to a
// chunk of the tcache's size. Since 2.43 `tcache` of a thread that never freed points to
// __tcache_dummy in libc's read-only data, which is no chunk and is ignored.
#pragma once

#include <span>
#include <vector>

#include "heap/located_malloc.h"
#include "target/target.h"

namespace heapsnap {

struct ThreadAllocator {
  int tid = 0;
  Address tcache;  // tcache_perthread_struct, what malloc returned; null when it has none
  Address arena;   // its malloc_state; null when it never allocated
  // Its storage cannot be read, or reads as zeros, which no thread's does: libc keeps its locale
  // there from the start. This happens in cores that gcore wrote of stacks with guard pages in
  // them.
  bool storage_is_lost = false;
  // Where the word for the tcache leads when that is a chunk of a tcache's size that holds no
  // lists: something has written over them.
  Address damaged_tcache = {};
  bool operator==(const ThreadAllocator&) const = default;
};

// Whether `tcache` may be a tcache_perthread_struct: it is aligned, its chunk has one of the sizes
// that a tcache takes, and its counts are possible. `sizeof` of the struct and the alignment come
// from `layout`; malloc may have given MINSIZE bytes more (seen with 2.43: 0x320 instead of 0x300,
// where threads shared an arena).
bool is_tcache(MemoryReader& memory, const MallocLayout& layout, Address tcache);

// One entry for each thread of `target` that has registers, in their order. Empty when the TLS
// offset of `malloc` is not known, or no thread has registers. `arenas`: every arena of this
// malloc.
std::vector<ThreadAllocator> find_thread_allocators(Target& target, const LocatedMalloc& malloc,
                                                    std::span<const Address> arenas);

}  // namespace heapsnap
