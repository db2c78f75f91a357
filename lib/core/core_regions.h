// The address space of a core as a list of regions: where each byte of it is to be had.
//
//            range.begin       +claimed            range.end
//   region   |-- dumped -------|-- from_file ------|
//
// What the kernel (or gcore) meant to dump comes from the core alone: a core that was cut off in
// there has a hole, since the file may never have held those bytes (relocated, written to). Only
// what it left out may come from the mapped file.
#pragma once

#include <span>
#include <vector>

#include "core/core_notes.h"
#include "elf/elf_headers.h"

namespace heapsnap {

struct CoreRegion {
  AddressRange range;
  uint32_t flags = 0;                    // PF_*; 0 while they are not known
  bool flags_known = true;               // false: only NT_FILE names it
  uint64_t claimed = 0;                  // bytes that the core says it holds
  std::span<const std::byte> dumped;     // those that it does hold, at most `claimed`
  std::span<const std::byte> from_file;  // file contents from range.begin on; empty: not usable
  const CoreNotes::File* file = nullptr;
  uint64_t file_offset = 0;  // of range.begin, where `file` is set

  // The part of it in [begin, end), which lies inside.
  CoreRegion slice(Address begin, Address end) const;
};

// Bytes given as memory at `base`.
struct CoreImage {
  Address base;
  std::span<const std::byte> bytes;
};

// Disjoint and in order of address. An image hides what the core has at the same place; of
// segments that overlap (damage) the lower one counts. Regions are cut where files begin and end;
// what only `files` name comes as regions of unknown flags. The results point into `files`.
std::vector<CoreRegion> core_regions(const std::vector<CoreImage>& images, const ElfHeaders* core,
                                     const std::vector<CoreNotes::File>& files);

}  // namespace heapsnap
