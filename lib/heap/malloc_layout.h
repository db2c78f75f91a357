// Where the members of glibc's malloc structures lie.
//
// malloc_state is known by one number, the offset of bins[]: all versions since 2.17 keep
//   top = bins - 2W, last_remainder = bins - W, binmap = bins + 254W, next = binmap + 16,
//   next_free = next + W, [attached_threads = next + 2W since 2.23], system_mem after that.
// docs/glibc-layouts.md lists the rows that these structures come in, and what changed when.
// Sources: glibc malloc/malloc.c, malloc/arena.c; offsets checked with the DWARF of distributors'
// debug files (2.31, 2.36, 2.41, 2.43 for x86-64, aarch64 and i386).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "heap/heap_model.h"
#include "target/process.h"

namespace heapsnap {

constexpr unsigned kBins = 127;
// A ring of arenas is followed this far; glibc makes 8 for each CPU.
constexpr unsigned kMostArenas = 1 << 16;

struct MallocLayout {
  Machine machine = Machine::kX86_64;
  GlibcVersion version;
  unsigned word = 8;
  uint64_t malloc_alignment = 16;
  // HEAP_MAX_SIZE, the usual one: with hugepages 2.35 to 2.41 take 4 * mp_.hp_pagesize.
  uint64_t heap_max_size = 64ULL << 20;

  struct State {                 // struct malloc_state
    uint64_t fastbins = 0;       // fastbinsY[]
    unsigned fastbin_count = 0;  // 10; 11 on i386 since 2.26; 0 since 2.43
    uint64_t top = 0;
    uint64_t bins = 0;
    uint64_t next = 0;
    uint64_t attached_threads = 0;
    bool has_attached_threads = true;
    uint64_t system_mem = 0;
    uint64_t max_system_mem = 0;
    uint64_t size = 0;
    bool operator==(const State&) const = default;
  } state;

  struct Par {  // struct malloc_par
    uint64_t mmap_threshold = 0;
    uint64_t arena_test = 0;
    uint64_t hp_pagesize = 0;  // 0: absent
    uint64_t n_mmaps = 0;
    uint64_t n_mmaps_max = 0;
    uint64_t max_n_mmaps = 0;
    uint64_t mmapped_mem = 0;
    uint64_t sbrk_base = 0;
    uint64_t tcache_count = 0;  // 0: absent
    uint64_t size = 0;
    bool operator==(const Par&) const = default;
  } par;

  struct HeapInfo {  // struct _heap_info
    uint64_t ar_ptr = 0;
    uint64_t prev = 0;
    uint64_t size = 0;
    uint64_t total = 0;  // sizeof
    bool operator==(const HeapInfo&) const = default;
  } heap_info;

  struct Tcache {  // struct tcache_perthread_struct
    bool exists = false;
    unsigned bins = 0;
    unsigned count_size = 0;   // bytes of one counts[] or num_slots[] entry
    bool counts_down = false;  // num_slots: free slots, not entries (2.42 and later)
    uint64_t entries = 0;
    uint64_t size = 0;  // sizeof
    bool operator==(const Tcache&) const = default;
  } tcache;

  bool safe_linking = false;              // 2.32 and later: (address of field >> 12) ^ pointer
  bool mmapped_size_less_header = false;  // 2.43 and later: see MmappedChunk

  // From the table. Nothing for a version before 2.17; versions newer than the table get its newest
  // row.
  static std::optional<MallocLayout> for_version(Machine machine, GlibcVersion version);
  // The different layouts of the table, newest first, each with the first version that has it. For
  // modules whose version is not known: what memory says decides.
  static std::vector<MallocLayout> all_variants(Machine machine);
  // "L2/P35": the rows of docs/glibc-layouts.md that for_version() takes for `version`.
  std::string table_row() const;

  // The same for a malloc that was built without thread caches (libc_malloc_debug.so.0): mp_ ends
  // before its tcache members.
  MallocLayout without_thread_caches() const;

  // Bytes of the chunk that malloc makes for a tcache_perthread_struct.
  uint64_t tcache_chunk_size() const {
    return (tcache.size + word + malloc_alignment - 1) & ~(malloc_alignment - 1);
  }

  bool operator==(const MallocLayout&) const = default;
};

}  // namespace heapsnap
