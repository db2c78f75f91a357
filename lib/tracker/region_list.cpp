#include "tracker/region_list.h"

#include "tracker/arch_x86_64.h"
#include "tracker/table_space.h"

namespace heapsnap::tracker {

namespace {

uint32_t vacant_regions = 0;

// How many entries there are; the count is one too large while a thread finds the list full.
uint64_t listed() {
  const uint64_t count = load(control.directory->regions.count);
  return count < kRegionsAtMost ? count : kRegionsAtMost;
}

// An entry of memory that was unmapped, for its new owner alone; null where there is none.
Region* take_vacant_region() {
  if (load(vacant_regions) == 0) return nullptr;
  const ChunkedTable& regions = control.directory->regions;
  for (uint64_t i = 0; i < listed(); ++i) {
    auto& region = entry<Region>(regions, i);
    uint32_t expected = kRegionVacant;
    if (!__atomic_compare_exchange_n(&region.kind, &expected, 0, false, __ATOMIC_ACQUIRE,
                                     __ATOMIC_RELAXED)) {
      continue;
    }
    add(vacant_regions, -1U);
    return &region;
  }
  return nullptr;
}

// An index is taken before its entry is written, so two writers never share one. A reader may
// meanwhile see an entry of zeros; kind 0 says so.
Region* take_new_region() {
  ChunkedTable& regions = control.directory->regions;
  const uint64_t index = __atomic_fetch_add(&regions.count, 1, __ATOMIC_RELAXED);
  if (index >= kRegionsAtMost) {
    __atomic_fetch_sub(&regions.count, 1, __ATOMIC_RELAXED);
    note_limit(kLimitRegions);
    return nullptr;
  }
  if (index % (kPage / sizeof(Region)) == 0) add(control.directory->memory_used, kPage);
  return &entry<Region>(regions, index);
}

}  // namespace

void list_region(const void* memory, uint64_t size, uint64_t offset, uint32_t kind) {
  Region* region = take_vacant_region();
  if (region == nullptr) region = take_new_region();
  if (region == nullptr) return;
  region->address = reinterpret_cast<uint64_t>(memory);
  region->size = size;
  region->file_offset = offset;
  store_release(region->kind, kind);
}

void unlist_region(const void* memory) {
  const ChunkedTable& regions = control.directory->regions;
  for (uint64_t i = 0; i < listed(); ++i) {
    auto& region = entry<Region>(regions, i);
    if (load_acquire(region.kind) != kRegionWorking ||
        region.address != reinterpret_cast<uint64_t>(memory)) {
      continue;
    }
    store_release(region.kind, kRegionVacant);
    add(vacant_regions, 1);
    return;
  }
}

}  // namespace heapsnap::tracker
