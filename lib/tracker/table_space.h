// Where the tables lie: mappings that grow and never move, listed in the Directory's regions,
// within the memory limit. And working memory, which is private and not listed.
#pragma once

#include <cstdint>

#include "tracker/control.h"

namespace heapsnap::tracker {

// Creates the Directory with all its tables, empty. With a table_fd (>= 0, a memfd) they lie there.
// False when the system refuses; then nothing is left behind.
bool create_tables(int table_fd);

// Gives the contents of all tables back; addresses stay reserved and read as zero. The Directory
// is left as create_tables made it, options apart.
void clear_tables();

// A listed mapping of zeros, or null when a limit forbids it (which is then noted in the
// Directory).
void* map_table(uint64_t size, uint32_t kind);

// Private zeros, or null. `size` is rounded up to pages.
void* map_working_memory(uint64_t size);
void unmap_working_memory(void* memory, uint64_t size);

// The chunk of `table` that holds entry `index`, made if it is not there; null when a limit forbids
// it. Callers serialize per table.
void* chunk_for(ChunkedTable& table, uint64_t index, uint32_t kind, uint32_t limit_bit);

template <typename T>
T& entry(const ChunkedTable& table, uint64_t index) {
  const auto* chunks = reinterpret_cast<const uint64_t*>(table.chunks);
  return reinterpret_cast<T*>(
      load(chunks[index >> table.chunk_shift]))[index & ((1ULL << table.chunk_shift) - 1)];
}

inline void note_limit(uint32_t bit) {
  __atomic_fetch_or(&control.directory->limits, bit, __ATOMIC_RELAXED);
}

// Tables in a memfd are shared with whoever holds it; a forked child needs its own. To be called in
// the child while it has one thread. False: no memory, and the child must not record.
bool detach_tables_from_file();

// --- Live blocks

// The slot of a block, null when its leaf is not there (nothing recorded around).
__attribute__((always_inline)) inline uint32_t* live_slot(const void* block) {
  const auto address = reinterpret_cast<uint64_t>(block);
  uint64_t* const root = control.live_root;
  const uint64_t index = address >> kLeafShift;
  if (HEAPSNAP_UNLIKELY(root == nullptr || index >= kRootEntries)) return nullptr;
  auto* leaf = reinterpret_cast<uint32_t*>(load_acquire(root[index]));
  if (HEAPSNAP_UNLIKELY(leaf == nullptr)) return nullptr;
  return leaf + ((address >> kGranuleShift) & (kLeafSlots - 1));
}

// The same, making the leaf; null when a limit forbids it. Safe in a signal handler.
uint32_t* make_live_slot(const void* block);

}  // namespace heapsnap::tracker
