// Where the tables lie: mappings that grow and never move, listed in the Directory's regions,
// within the memory limit. And working memory, which is private and not listed.
//
// The account. Whatever may become resident is charged to memory_used before it is touched: working
// memory and strings when they are mapped, entries of growing tables page by page, and where there
// is a limit each page of slots when the first slot in it is filled. The first time that the limit
// refuses something, recording of new blocks ends (Control::is_full): nobody asks again, and every
// hook passes allocations on. Blocks that are recorded are noted as free when they are freed.
#pragma once

#include <cstdint>

#include "tracker/control.h"

namespace heapsnap::tracker {

// Creates the Directory with all its tables, empty. With a table_fd (>= 0, a memfd) they lie there.
// False when the system refuses; then nothing is left behind.
bool create_tables(int table_fd);

// Takes a new limit, 0: none. Begins or ends the account of slots, and lets recording of new blocks
// go on where there is room again.
void set_memory_limit(uint64_t limit);

// Adds to the account. False: the limit forbids it, which is noted, and recording of new blocks
// ends.
bool charge(uint64_t bytes);
void uncharge(uint64_t bytes);

// Gives the contents of all tables back; addresses stay reserved and read as zero. The Directory
// is left as create_tables made it, options apart.
void clear_tables();

// A listed mapping of zeros that the caller charges for, or null when the system refuses (which is
// then noted in the Directory).
void* map_table(uint64_t size, uint32_t kind);

// Private zeros, charged for, or null. `size` is rounded up to pages.
void* map_working_memory(uint64_t size);
void unmap_working_memory(void* memory, uint64_t size);
// For what only makes recording faster: at most a quarter of the limit, and no harm done when it is
// refused.
void* map_spare_memory(uint64_t size);
void unmap_spare_memory(void* memory, uint64_t size);

// The chunk of `table` that holds entry `index`, the next one to be added, made if it is not there;
// null when a limit forbids it. Charges for the entry. Callers serialize per table.
void* chunk_for(ChunkedTable& table, uint64_t index, uint32_t kind, uint32_t limit_bit);

// A table without entries. False: no address space.
bool create_chunked_table(ChunkedTable& table, uint32_t entry_size, uint32_t shift,
                          uint32_t chunks);

template <typename T>
T& entry(const ChunkedTable& table, uint64_t index) {
  const auto* chunks = reinterpret_cast<const uint64_t*>(table.chunks);
  return reinterpret_cast<T*>(
      load(chunks[index >> table.chunk_shift]))[index & ((1ULL << table.chunk_shift) - 1)];
}

uint64_t monotonic_ns();  // to 4 ms

inline void note_limit(uint32_t bit) {
  __atomic_fetch_or(&control.directory->limits, bit, __ATOMIC_RELAXED);
}

// Tables in a memfd are shared with whoever holds it; a forked child needs its own. To be called in
// the child while it has one thread. False: no memory, and the child must not record.
bool detach_tables_from_file();

// --- Live blocks

// The slot of a block, null when its leaf is not there (nothing recorded around). Once there is a
// root.
__attribute__((always_inline)) inline uint32_t* slot_below(uint64_t* root, const void* block) {
  const auto address = reinterpret_cast<uint64_t>(block);
  const uint64_t index = address >> kLeafShift;
  if (HEAPSNAP_UNLIKELY(index >= kRootEntries)) return nullptr;
  auto* leaf = reinterpret_cast<uint32_t*>(load_acquire(root[index]));
  if (HEAPSNAP_UNLIKELY(leaf == nullptr)) return nullptr;
  return leaf + ((address >> kGranuleShift) & (kLeafSlots - 1));
}
__attribute__((always_inline)) inline uint32_t* live_slot(const void* block) {
  uint64_t* const root = control.live_root;
  return HEAPSNAP_LIKELY(root != nullptr) ? slot_below(root, block) : nullptr;
}

// The slot to fill, or null when that has to be asked for.
__attribute__((always_inline)) inline uint32_t* fillable_slot(const void* block) {
  uint64_t* const root = control.fill_root;
  return HEAPSNAP_LIKELY(root != nullptr) ? slot_below(root, block) : nullptr;
}

// The same, making the leaf and charging for what will be touched; null when a limit forbids it.
// Safe in a signal handler.
uint32_t* make_live_slot(const void* block);

// --- Pages with recorded blocks
//
// How many recorded blocks begin in the pages that share a count, so that a free() of one that was
// not recorded, as nearly all are when samples are taken, looks at one byte that is often looked
// at. A count never says too little: it is raised before a slot is filled and lowered after it was
// emptied.

inline constexpr uint64_t kPageShift = 12;
inline constexpr uint64_t kPageCounts = 1 << 18;
inline constexpr uint8_t kPageCountUnknown = 255;  // stays so

extern HEAPSNAP_OWN uint8_t page_counts[kPageCounts];

inline uint8_t& page_count_of(const void* block) {
  return page_counts[(reinterpret_cast<uint64_t>(block) >> kPageShift) & (kPageCounts - 1)];
}
inline bool may_be_recorded(const void* block) {
  return load(page_count_of(block)) != 0;
}
void raise_page_count(const void* block);
void lower_page_count(const void* block);
// For when every block is recorded, and nobody raises or lowers anything.
void expect_recorded_everywhere();

}  // namespace heapsnap::tracker
