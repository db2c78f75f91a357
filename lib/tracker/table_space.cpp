#include "tracker/table_space.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "tracker/arch_x86_64.h"
#include "tracker/region_list.h"

#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#define PR_SET_VMA_ANON_NAME 0
#endif

namespace heapsnap::tracker {

constinit Control control = {};
uint8_t page_counts[kPageCounts];

namespace {

// Entries a chunk, and how many chunks: 2^27 nodes and stacks, 65,536 threads, 65,535 modules,
// 131,072 mappings.
constexpr uint32_t kNodeShift = 15;
constexpr uint32_t kStackShift = 12;
constexpr uint32_t kThreadShift = 6;
constexpr uint32_t kModuleShift = 6;

int file = -1;
uint64_t file_size = 0;

uint64_t round_up(uint64_t size) {
  return (size + kPage - 1) & ~(kPage - 1);
}

// prctl(2) only while the tables are made: a seccomp filter of the program may bar it afterwards.
bool names_mappings = true;

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
  if (descriptor < 0 && names_mappings) name_mapping(memory, size, name);
  // A huge page would back 2 MiB of a leaf for the sake of one block.
  system_call(SYS_madvise, result, static_cast<long>(size), MADV_NOHUGEPAGE);
  return memory;
}

void unmap(void* memory, uint64_t size) {
  system_call(SYS_munmap, reinterpret_cast<long>(memory), static_cast<long>(size));
}

// What the entries [0, count) of a table take.
uint64_t charged_for(const ChunkedTable& table, uint64_t count) {
  return round_up(count * table.entry_size);
}

// Behind the slots of a leaf, a bit for each page of them that is charged for.
constexpr uint64_t kLeafPages = kLeafSlots * sizeof(uint32_t) / kPage;
constexpr uint64_t kLeafBytes = kLeafSlots * sizeof(uint32_t) + kPage;
// A new leaf makes a page of the root resident, and that of its bits.
constexpr uint64_t kLeafCharge = 2 * kPage;

uint64_t& charged_bits(uint64_t leaf, uint64_t page) {
  return reinterpret_cast<uint64_t*>(leaf + kLeafPages * kPage)[page / 64];
}

void end_recording_of_new_blocks(uint32_t limit_bit) {
  note_limit(limit_bit);
  if (__atomic_exchange_n(&control.is_full, 1, __ATOMIC_RELAXED) != 0) return;
  store(control.directory->limit_reached_ns, monotonic_ns());
  raise_epoch();
}

// Marks a page of slots as charged for, and charges unless it was marked before.
bool charge_slots(uint64_t leaf, uint64_t page) {
  uint64_t& bits = charged_bits(leaf, page);
  const uint64_t bit = 1ULL << page % 64;
  if ((load(bits) & bit) != 0) return true;
  if (!charge(kPage)) return false;
  if ((__atomic_fetch_or(&bits, bit, __ATOMIC_RELAXED) & bit) != 0) uncharge(kPage);
  return true;
}

// What was filled while there was no limit.
void charge_resident_slots() {
  static unsigned char resident[kLeafPages];
  Directory& directory = *control.directory;
  for (uint64_t i = 0; i < load(directory.regions.count); ++i) {
    const Region& region = entry<Region>(directory.regions, i);
    if (region.kind != kRegionLiveLeaf) continue;
    if (system_call(SYS_mincore, static_cast<long>(region.address), kLeafPages * kPage,
                    reinterpret_cast<long>(resident)) != 0) {
      continue;
    }
    for (uint64_t page = 0; page < kLeafPages; ++page) {
      uint64_t& bits = charged_bits(region.address, page);
      const uint64_t bit = 1ULL << page % 64;
      if ((resident[page] & 1) == 0 || (load(bits) & bit) != 0) continue;
      __atomic_fetch_or(&bits, bit, __ATOMIC_RELAXED);
      add(directory.memory_used, kPage);
    }
  }
}

void uncharge_slots(uint64_t leaf) {
  for (uint64_t page = 0; page < kLeafPages; page += 64) {
    uint64_t& bits = charged_bits(leaf, page);
    for (; bits != 0; bits &= bits - 1) uncharge(kPage);
  }
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

void* map_listed(uint64_t size, uint32_t kind) {
  size = round_up(size);
  uint64_t offset = 0;
  void* memory = map_zeros(size, kTableMapping, offset);
  if (memory == nullptr) return nullptr;
  list_region(memory, size, offset, kind);
  add(control.directory->memory_reserved, size);
  return memory;
}

void* map_private(uint64_t size) {
  void* memory = map(size, -1, 0, kTableMapping);
  if (memory == nullptr) return nullptr;
  list_region(memory, size, kNoFileOffset, kRegionWorking);
  add(control.directory->memory_reserved, size);
  return memory;
}

void unmap_private(void* memory, uint64_t size) {
  unlist_region(memory);
  unmap(memory, size);
  add(control.directory->memory_reserved, -size);
  uncharge(size);
}

// Memory of map_spare_memory().
uint64_t spare_used = 0;

bool charge_spare(uint64_t size) {
  const uint64_t limit = load(control.directory->memory_limit);
  const uint64_t used = __atomic_add_fetch(&control.directory->memory_used, size, __ATOMIC_RELAXED);
  const uint64_t spare = __atomic_add_fetch(&spare_used, size, __ATOMIC_RELAXED);
  if (limit == 0 || (used <= limit && spare <= limit / 4)) return true;
  uncharge(size);
  add(spare_used, -size);
  return false;
}

}  // namespace

uint64_t monotonic_ns() {
  timespec now{};
  // The vDSO reads the time stamp counter for CLOCK_MONOTONIC; where a program has asked for it
  // (PR_SET_TSC), whoever reads that is sent a SIGSEGV. The coarse clock needs neither it nor a
  // system call, which a seccomp filter may bar.
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

bool charge(uint64_t bytes) {
  Directory& directory = *control.directory;
  const uint64_t limit = load(directory.memory_limit);
  const uint64_t used = __atomic_add_fetch(&directory.memory_used, bytes, __ATOMIC_RELAXED);
  if (limit == 0 || used <= limit) return true;
  uncharge(bytes);
  end_recording_of_new_blocks(kLimitMemory);
  return false;
}

void uncharge(uint64_t bytes) {
  add(control.directory->memory_used, -bytes);
}

void set_memory_limit(uint64_t limit) {
  Directory& directory = *control.directory;
  store(directory.memory_limit, limit);
  store(control.fill_root, limit == 0 ? control.live_root : nullptr);
  if (limit != 0) charge_resident_slots();
  store(control.is_full, 0);
  store(directory.limit_reached_ns, 0);
  if (limit != 0) charge(0);
}

void* map_table(uint64_t size, uint32_t kind) {
  void* memory = map_listed(size, kind);
  if (memory == nullptr) end_recording_of_new_blocks(kLimitAddressSpace);
  return memory;
}

void* map_working_memory(uint64_t size) {
  size = round_up(size);
  if (!charge(size)) return nullptr;
  void* memory = map_private(size);
  if (memory == nullptr) {
    uncharge(size);
    end_recording_of_new_blocks(kLimitAddressSpace);
  }
  return memory;
}

void unmap_working_memory(void* memory, uint64_t size) {
  unmap_private(memory, round_up(size));
}

void* map_spare_memory(uint64_t size) {
  size = round_up(size);
  if (!charge_spare(size)) return nullptr;
  void* memory = map_private(size);
  if (memory == nullptr) {
    uncharge(size);
    add(spare_used, -size);
    note_limit(kLimitAddressSpace);
  }
  return memory;
}

void unmap_spare_memory(void* memory, uint64_t size) {
  size = round_up(size);
  add(spare_used, -size);
  unmap_private(memory, size);
}

void* chunk_for(ChunkedTable& table, uint64_t index, uint32_t kind, uint32_t limit_bit) {
  const uint64_t chunk = index >> table.chunk_shift;
  if (chunk >= table.chunk_capacity) {
    note_limit(limit_bit);
    return nullptr;
  }
  const uint64_t cost = charged_for(table, index + 1) - charged_for(table, index);
  if (cost != 0 && !charge(cost)) return nullptr;
  auto* chunks = reinterpret_cast<uint64_t*>(table.chunks);
  if (chunks[chunk] == 0) {
    const bool is_page_new = chunk % (kPage / sizeof(uint64_t)) == 0;
    void* memory = nullptr;
    if (!is_page_new || charge(kPage)) {
      memory = map_table(static_cast<uint64_t>(table.entry_size) << table.chunk_shift, kind);
    }
    if (memory == nullptr) {
      uncharge(cost);
      return nullptr;
    }
    store_release(chunks[chunk], reinterpret_cast<uint64_t>(memory));
  }
  return reinterpret_cast<void*>(chunks[chunk]);
}

bool create_chunked_table(ChunkedTable& table, uint32_t entry_size, uint32_t shift,
                          uint32_t chunks) {
  const auto addresses =
      reinterpret_cast<uint64_t>(map_listed(sizeof(uint64_t) * chunks, kRegionChunks));
  if (addresses == 0) return false;
  table = {addresses, 0, entry_size, shift, chunks, 0};
  return true;
}

bool create_tables(int table_fd) {
  if (table_fd >= 0) {
    const long copy = system_call(SYS_fcntl, table_fd, F_DUPFD_CLOEXEC, 512);
    if (failed(copy)) return false;
    file = static_cast<int>(copy);
  }
  uint64_t offset = 0;
  auto* directory = static_cast<Directory*>(map_zeros(kDirectorySize, kDirectoryMapping, offset));
  if (directory == nullptr) return false;
  uint64_t regions_offset = 0;
  void* regions = map_zeros(kRegionsAtMost * sizeof(Region), kTableMapping, regions_offset);
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
  add(directory->memory_used, kDirectorySize + sizeof page_counts);
  list_region(directory, kDirectorySize, offset, kRegionDirectory);
  list_region(regions, kRegionsAtMost * sizeof(Region), regions_offset, kRegionRegions);

  directory->live_root_entries = kRootEntries;
  directory->live_root = reinterpret_cast<uint64_t>(map_listed(8 * kRootEntries, kRegionLiveRoot));
  if (directory->live_root == 0 ||
      !create_chunked_table(directory->nodes, sizeof(StackNode), kNodeShift,
                            1U << (27 - kNodeShift)) ||
      !create_chunked_table(directory->stacks, sizeof(StackRecord), kStackShift,
                            1U << (27 - kStackShift)) ||
      !create_chunked_table(directory->threads, sizeof(ThreadRecord), kThreadShift,
                            1U << (16 - kThreadShift)) ||
      !create_chunked_table(directory->modules, sizeof(ModuleRecord), kModuleShift,
                            1U << (16 - kModuleShift))) {
    return false;  // address space is spent; what was mapped is a few pages
  }
  control.live_root = reinterpret_cast<uint64_t*>(directory->live_root);
  control.fill_root = control.live_root;
  names_mappings = false;
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
    if (!charge(kLeafCharge)) return nullptr;
    void* leaf = map_table(kLeafBytes, kRegionLiveLeaf);
    if (leaf == nullptr) {
      uncharge(kLeafCharge);
      return nullptr;
    }
    uint64_t expected = 0;
    if (!__atomic_compare_exchange_n(&place, &expected, reinterpret_cast<uint64_t>(leaf), false,
                                     __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
      uncharge(kLeafCharge);
    }
  }
  uint32_t* slot = live_slot(block);
  const uint64_t leaf = load_acquire(place);
  const uint64_t page = (reinterpret_cast<uint64_t>(slot) - leaf) / kPage;
  if (load(control.directory->memory_limit) != 0 && !charge_slots(leaf, page)) return nullptr;
  return slot;
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
  if (load(page_counts[0]) == kPageCountUnknown) return;
  for (uint8_t& count : page_counts) store(count, kPageCountUnknown);
}

void clear_tables() {
  Directory& directory = *control.directory;
  const uint64_t regions = directory.regions.count;
  for (uint64_t i = 0; i < regions; ++i) {
    const Region& region = entry<Region>(directory.regions, i);
    if (region.kind == kRegionLiveLeaf) uncharge_slots(region.address);
    switch (region.kind) {
      case 0:
      case kRegionDirectory:
      case kRegionRegions:
      case kRegionLiveRoot:
      case kRegionChunks:  // these lead to the (now empty) rest
      case kRegionWorking:
      case kRegionVacant: continue;
      default: break;
    }
    const int advice = region.file_offset == kNoFileOffset ? MADV_DONTNEED : MADV_REMOVE;
    system_call(SYS_madvise, static_cast<long>(region.address), static_cast<long>(region.size),
                advice);
  }
  const auto clear = [](ChunkedTable& table) {
    uncharge(charged_for(table, table.count));
    store(table.count, 0);
  };
  clear(directory.nodes);
  clear(directory.stacks);
  clear(directory.threads);
  clear(directory.modules);
  clear(directory.functions);
  directory.limits = 0;
  directory.limit_reached_ns = 0;
  store(control.is_full, 0);
  directory.dropped_slots = 0;
  directory.dropped_stacks = 0;
  directory.nested_events = 0;
  directory.dropped_threads = 0;
  directory.slow_unwinds = 0;
  directory.full_unwinds = 0;
  directory.unread_interpreters = 0;
  directory.dropped_functions = 0;
}

bool detach_tables_from_file() {
  if (file < 0) return true;
  Directory& directory = *control.directory;
  // Backwards: the list of the mappings (the second) and the Directory (the first) come last.
  for (uint64_t i = directory.regions.count; i-- > 0;) {
    const Region region = entry<Region>(directory.regions, i);
    if (region.kind == 0 || region.file_offset == kNoFileOffset) continue;
    void* copy = map(region.size, -1, 0, kTableMapping);
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
