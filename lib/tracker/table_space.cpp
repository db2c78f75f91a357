#include "tracker/table_space.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tracker/arch_x86_64.h"

#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#define PR_SET_VMA_ANON_NAME 0
#endif

namespace heapsnap::tracker {

constinit Control control = {};
uint8_t page_counts[kPageCounts];

namespace {

constexpr uint64_t kPage = 4096;
// Entries a chunk, and how many chunks: 2^27 nodes and stacks, 65,536 threads, 65,535 modules,
// 131,072 mappings.
constexpr uint32_t kNodeShift = 15;
constexpr uint32_t kStackShift = 12;
constexpr uint32_t kThreadShift = 6;
constexpr uint32_t kModuleShift = 6;
constexpr uint32_t kRegionShift = 17;
constexpr uint64_t kRegionsAtMost = 1ULL << kRegionShift;

int file = -1;
uint64_t file_size = 0;

uint64_t round_up(uint64_t size) {
  return (size + kPage - 1) & ~(kPage - 1);
}

void name_mapping(void* memory, uint64_t size, const char* name) {
  system_call(SYS_prctl, PR_SET_VMA, PR_SET_VMA_ANON_NAME, reinterpret_cast<long>(memory),
              static_cast<long>(size), reinterpret_cast<long>(name));
}

void* map(uint64_t size, int descriptor, uint64_t offset, const char* name) {
  const int flags = descriptor >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  const long result = system_call(SYS_mmap, 0, static_cast<long>(size), PROT_READ | PROT_WRITE,
                                  flags, descriptor, static_cast<long>(offset));
  if (failed(result)) return nullptr;
  auto* memory = reinterpret_cast<void*>(result);
  if (descriptor < 0 && name != nullptr) name_mapping(memory, size, name);
  // A huge page would back 2 MiB of a leaf for the sake of one block.
  system_call(SYS_madvise, result, static_cast<long>(size), MADV_NOHUGEPAGE);
  return memory;
}

void unmap(void* memory, uint64_t size) {
  system_call(SYS_munmap, reinterpret_cast<long>(memory), static_cast<long>(size));
}

// Bytes of the leaves that memory stands behind; asked only when a limit is set.
uint64_t resident_leaves() {
  uint64_t pages = 0;
  static unsigned char resident[kLeafSlots * 4 / kPage];
  Directory& directory = *control.directory;
  for (uint64_t i = 0; i < load(directory.regions.count); ++i) {
    const Region& region = entry<Region>(directory.regions, i);
    if (region.kind != kRegionLiveLeaf) continue;
    if (system_call(SYS_mincore, static_cast<long>(region.address), static_cast<long>(region.size),
                    reinterpret_cast<long>(resident)) != 0) {
      continue;
    }
    for (unsigned char byte : resident) pages += byte & 1;
  }
  return pages * kPage;
}

bool within_limit(uint64_t size, uint32_t kind) {
  Directory* directory = control.directory;
  if (directory == nullptr || load(directory->memory_limit) == 0) return true;
  uint64_t used = load(directory->memory_used);
  // Of a leaf only what is touched counts, and that is not known yet.
  used += kind == kRegionLiveLeaf ? kPage : size;
  if (used <= load(directory->memory_limit)) used += resident_leaves();
  if (used <= load(directory->memory_limit)) return true;
  note_limit(kLimitMemory);
  return false;
}

uint64_t used_of(uint64_t size, uint32_t kind) {
  switch (kind) {
    case kRegionLiveLeaf: return 0;
    case kRegionLiveRoot:
    case kRegionChunks: return kPage;
    default: return size;
  }
}

// An index is taken before its entry is written, so two writers never share one. A reader may
// meanwhile see an entry of zeros; kind 0 says so.
void list_region(const void* memory, uint64_t size, uint64_t offset, uint32_t kind) {
  ChunkedTable& regions = control.directory->regions;
  const uint64_t index = __atomic_fetch_add(&regions.count, 1, __ATOMIC_RELAXED);
  if (index >= kRegionsAtMost) {
    __atomic_fetch_sub(&regions.count, 1, __ATOMIC_RELAXED);
    note_limit(kLimitRegions);
    return;
  }
  auto& region = entry<Region>(regions, index);
  region.address = reinterpret_cast<uint64_t>(memory);
  region.size = size;
  region.file_offset = offset;
  store_release(region.kind, kind);
}

// Memory of the file (when there is one), else anonymous. `offset` becomes its place in the file.
void* map_zeros(uint64_t size, const char* name, uint64_t& offset) {
  offset = kNoFileOffset;
  if (file < 0) return map(size, -1, 0, name);
  const uint64_t place = __atomic_fetch_add(&file_size, size, __ATOMIC_RELAXED);
  // Writing the last byte grows the file and never shrinks what another thread has grown meanwhile.
  const char zero = 0;
  if (system_call(SYS_pwrite64, file, reinterpret_cast<long>(&zero), 1,
                  static_cast<long>(place + size - 1)) != 1) {
    return map(size, -1, 0, name);
  }
  offset = place;
  return map(size, file, place, name);
}

// Without the limit: what the Directory itself needs.
void* map_listed(uint64_t size, uint32_t kind) {
  size = round_up(size);
  uint64_t offset = 0;
  void* memory = map_zeros(size, "heapsnap_tables", offset);
  if (memory == nullptr) return nullptr;
  list_region(memory, size, offset, kind);
  add(control.directory->memory_reserved, size);
  add(control.directory->memory_used, used_of(size, kind));
  return memory;
}

bool create_chunked(ChunkedTable& table, uint32_t entry_size, uint32_t shift, uint32_t capacity) {
  table.entry_size = entry_size;
  table.chunk_shift = shift;
  table.chunk_capacity = capacity;
  table.chunks = reinterpret_cast<uint64_t>(map_listed(8ULL * capacity, kRegionChunks));
  return table.chunks != 0;
}

}  // namespace

void* map_table(uint64_t size, uint32_t kind) {
  if (!within_limit(size, kind)) return nullptr;
  void* memory = map_listed(size, kind);
  if (memory == nullptr) note_limit(kLimitAddressSpace);
  return memory;
}

void* map_working_memory(uint64_t size) {
  size = round_up(size);
  if (!within_limit(size, 0)) return nullptr;
  void* memory = map(size, -1, 0, nullptr);
  if (memory == nullptr) {
    note_limit(kLimitAddressSpace);
    return nullptr;
  }
  add(control.directory->memory_reserved, size);
  add(control.directory->memory_used, size);
  return memory;
}

void unmap_working_memory(void* memory, uint64_t size) {
  size = round_up(size);
  unmap(memory, size);
  add(control.directory->memory_reserved, -size);
  add(control.directory->memory_used, -size);
}

void* chunk_for(ChunkedTable& table, uint64_t index, uint32_t kind, uint32_t limit_bit) {
  const uint64_t chunk = index >> table.chunk_shift;
  if (chunk >= table.chunk_capacity) {
    note_limit(limit_bit);
    return nullptr;
  }
  auto* chunks = reinterpret_cast<uint64_t*>(table.chunks);
  if (chunks[chunk] == 0) {
    void* memory = map_table(static_cast<uint64_t>(table.entry_size) << table.chunk_shift, kind);
    if (memory == nullptr) return nullptr;
    store_release(chunks[chunk], reinterpret_cast<uint64_t>(memory));
  }
  return reinterpret_cast<void*>(chunks[chunk]);
}

bool create_tables(int table_fd) {
  if (table_fd >= 0) {
    const long copy = system_call(SYS_fcntl, table_fd, F_DUPFD_CLOEXEC, 512);
    if (failed(copy)) return false;
    file = static_cast<int>(copy);
  }
  uint64_t offset = 0;
  auto* directory =
      static_cast<Directory*>(map_zeros(kDirectorySize, "heapsnap_directory", offset));
  if (directory == nullptr) return false;
  uint64_t regions_offset = 0;
  void* regions = map_zeros(kRegionsAtMost * sizeof(Region), "heapsnap_tables", regions_offset);
  if (regions == nullptr) return false;
  control.directory = directory;
  directory->version = kLayoutVersion;
  directory->directory_size = kDirectorySize;
  directory->self = reinterpret_cast<uint64_t>(directory);
  directory->state = kStateDormant;
  directory->allocator = kAllocatorPtmalloc;

  directory->region_chunk = reinterpret_cast<uint64_t>(regions);
  directory->regions = {
      reinterpret_cast<uint64_t>(&directory->region_chunk), 0, sizeof(Region), kRegionShift, 1, 0};
  list_region(directory, kDirectorySize, offset, kRegionDirectory);
  list_region(regions, kRegionsAtMost * sizeof(Region), regions_offset, kRegionRegions);

  directory->live_root_entries = kRootEntries;
  directory->live_root = reinterpret_cast<uint64_t>(map_listed(8 * kRootEntries, kRegionLiveRoot));
  if (directory->live_root == 0 ||
      !create_chunked(directory->nodes, sizeof(StackNode), kNodeShift, 1U << (27 - kNodeShift)) ||
      !create_chunked(directory->stacks, sizeof(StackRecord), kStackShift,
                      1U << (27 - kStackShift)) ||
      !create_chunked(directory->threads, sizeof(ThreadRecord), kThreadShift,
                      1U << (16 - kThreadShift)) ||
      !create_chunked(directory->modules, sizeof(ModuleRecord), kModuleShift,
                      1U << (16 - kModuleShift))) {
    return false;  // address space is spent; what was mapped is a few pages
  }
  control.live_root = reinterpret_cast<uint64_t*>(directory->live_root);
  store_release(directory->magic, kDirectoryMagic);
  return true;
}

uint32_t* make_live_slot(const void* block) {
  const auto address = reinterpret_cast<uint64_t>(block);
  if (address >> kAddressBits != 0) return nullptr;
  uint64_t& place = control.live_root[address >> kLeafShift];
  if (load_acquire(place) == 0) {
    // Two threads may make the same leaf. The loser's stays listed as an empty region, which is
    // rare and costs address space only; a slot can never be lost.
    void* leaf = map_table(kLeafSlots * 4, kRegionLiveLeaf);
    if (leaf == nullptr) return nullptr;
    uint64_t expected = 0;
    __atomic_compare_exchange_n(&place, &expected, reinterpret_cast<uint64_t>(leaf), false,
                                __ATOMIC_RELEASE, __ATOMIC_RELAXED);
  }
  return live_slot(block);
}

void raise_page_count(const void* block) {
  uint8_t& count = page_count_of(block);
  uint8_t now = load(count);
  while (now != kPageCountUnknown &&
         !__atomic_compare_exchange_n(&count, &now, static_cast<uint8_t>(now + 1), true,
                                      __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
}

void lower_page_count(const void* block) {
  uint8_t& count = page_count_of(block);
  uint8_t now = load(count);
  while (now != kPageCountUnknown && now != 0 &&
         !__atomic_compare_exchange_n(&count, &now, static_cast<uint8_t>(now - 1), true,
                                      __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
}

void expect_recorded_everywhere() {
  for (uint8_t& count : page_counts) store(count, kPageCountUnknown);
}

void clear_tables() {
  Directory& directory = *control.directory;
  const uint64_t regions = directory.regions.count;
  for (uint64_t i = 0; i < regions; ++i) {
    const Region& region = entry<Region>(directory.regions, i);
    switch (region.kind) {
      case 0:
      case kRegionDirectory:
      case kRegionRegions:
      case kRegionLiveRoot:
      case kRegionChunks: continue;  // what leads to the (now empty) rest
      default: break;
    }
    const int advice = region.file_offset == kNoFileOffset ? MADV_DONTNEED : MADV_REMOVE;
    system_call(SYS_madvise, static_cast<long>(region.address), static_cast<long>(region.size),
                advice);
  }
  store(directory.nodes.count, 0);
  store(directory.stacks.count, 0);
  store(directory.threads.count, 0);
  store(directory.modules.count, 0);
  directory.limits = 0;
  directory.dropped_slots = 0;
  directory.dropped_stacks = 0;
  directory.nested_events = 0;
  directory.dropped_threads = 0;
  directory.slow_unwinds = 0;
  directory.full_unwinds = 0;
}

bool detach_tables_from_file() {
  if (file < 0) return true;
  Directory& directory = *control.directory;
  // Backwards: the list of the mappings (the second) and the Directory (the first) come last.
  for (uint64_t i = directory.regions.count; i-- > 0;) {
    const Region region = entry<Region>(directory.regions, i);
    if (region.kind == 0 || region.file_offset == kNoFileOffset) continue;
    void* copy = map(region.size, -1, 0, "heapsnap_tables");
    if (copy == nullptr) return false;
    // Only what the file holds; the rest is zeros in both.
    uint64_t at = region.file_offset;
    const uint64_t end = region.file_offset + region.size;
    while (at < end) {
      const long data = system_call(SYS_lseek, file, static_cast<long>(at), SEEK_DATA);
      if (failed(data) || static_cast<uint64_t>(data) >= end) break;
      const long hole = system_call(SYS_lseek, file, data, SEEK_HOLE);
      const uint64_t until =
          failed(hole) || static_cast<uint64_t>(hole) > end ? end : static_cast<uint64_t>(hole);
      const uint64_t inside = static_cast<uint64_t>(data) - region.file_offset;
      __builtin_memcpy(static_cast<char*>(copy) + inside,
                       reinterpret_cast<const char*>(region.address) + inside,
                       until - static_cast<uint64_t>(data));
      at = until;
    }
    if (failed(system_call(SYS_mremap, reinterpret_cast<long>(copy), static_cast<long>(region.size),
                           static_cast<long>(region.size), MREMAP_MAYMOVE | MREMAP_FIXED,
                           static_cast<long>(region.address)))) {
      return false;
    }
    entry<Region>(directory.regions, i).file_offset = kNoFileOffset;
  }
  system_call(SYS_close, file);
  file = -1;
  return true;
}

}  // namespace heapsnap::tracker
