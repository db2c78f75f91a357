// What a walk finds out about a process's glibc heaps besides the chunks themselves.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/address.h"
#include "heap/chunk.h"

namespace heapsnap {

struct GlibcVersion {
  int major = 0;  // 0.0: unknown
  int minor = 0;
  auto operator<=>(const GlibcVersion&) const = default;
};

// How main_arena was found. Stored in snapshots: values are never reused.
enum class DiscoveryStrategy : uint8_t {
  kNone = 0,
  kDebugSymbol = 1,     // symbol in a separate debug file or in the module itself
  kRelocation = 2,      // the relocation that makes main_arena.next point to main_arena
  kDisassembly = 3,     // vote of the exported functions that take its address
  kStructuralScan = 4,  // scan of writable data for something that is an arena
};
const char* to_string(DiscoveryStrategy strategy);  // "debug-symbol", "relocation", ...

// One glibc malloc. Most processes have one; dlmopen and libc_malloc_debug add more.
struct MallocInstance {
  std::string module;  // path of libc.so.6, of the static executable, ...
  std::string build_id;
  GlibcVersion version;
  DiscoveryStrategy strategy = DiscoveryStrategy::kNone;
  std::string layout_source;  // "debug info" or "table L2/P35"
  Address main_arena;
  Address malloc_par;  // mp_; null when it was not found
  // Counters of mp_, which the walk is compared with.
  uint64_t n_mmaps = 0;
  uint64_t mmapped_mem = 0;
  uint64_t tcache_count = 0;
  std::vector<std::string> notes;  // disagreements between sources, each a sentence
  bool operator==(const MallocInstance&) const = default;
};

struct Arena {
  Address address;  // of its malloc_state
  uint32_t instance = 0;
  bool is_main = false;
  bool is_noncontiguous = false;
  bool was_locked = false;  // its mutex was held at the freeze
  uint64_t system_mem = 0;
  uint64_t max_system_mem = 0;
  uint64_t attached_threads = 0;
  Address top;
  // Bytes of system_mem that the walk accounts for: chunks (except those skipped because of
  // corruption), heads of thread heaps, and foreign holes as far as malloc counts them. Equals
  // system_mem in a sound heap.
  uint64_t walked = 0;
  bool operator==(const Arena&) const = default;
};

enum class SegmentKind : uint8_t {
  kBrk = 0,         // a run of [heap] between foreign sbrk calls
  kThreadHeap = 1,  // heap_info, HEAP_MAX_SIZE aligned
  kMapped = 2,      // mmap instead of brk for a non-contiguous main arena
};

struct HeapSegment {
  AddressRange range;  // from the first chunk's header to the end of the last chunk
  int32_t arena = 0;
  SegmentKind kind = SegmentKind::kBrk;
  // What it adds to system_mem: heap_info.size, the whole mapping, or the bytes from the end of the
  // brk segment before it on (mp_.sbrk_base for the first), where malloc counts the hole between.
  uint64_t system_bytes = 0;
  bool operator==(const HeapSegment&) const = default;
};

struct ThreadCache {
  int tid = 0;         // 0: found among the chunks, its thread is not known
  Address tcache;      // tcache_perthread_struct; null when it has none
  int32_t arena = -1;  // the arena that the thread allocates from
  uint64_t chunks = 0;
  uint64_t bytes = 0;
  bool operator==(const ThreadCache&) const = default;
};

struct HeapModel {
  std::vector<MallocInstance> instances;
  std::vector<Arena> arenas;  // index 0 is the main arena of the first instance
  std::vector<HeapSegment> segments;
  std::vector<ThreadCache> thread_caches;
  std::vector<Corruption> corruptions;
  // The allocator, when it is not glibc's or there is more than one: "jemalloc", "musl", "Go", ...
  std::string foreign_allocator;
  bool foreign_answers_malloc = false;  // it is the program's malloc, not one beside glibc's
};

// Whether the glibc mallocs of a process with so many resident bytes hold almost none of them.
bool is_idle(const HeapModel& heap, uint64_t rss);

}  // namespace heapsnap
