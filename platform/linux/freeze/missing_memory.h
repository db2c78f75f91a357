// Memory of the target that its copy-on-write child does not show, kept from the target while it
// was stopped.
//
//   madvise(2)         the child        VmFlags in smaps
//   MADV_DONTFORK      has no mapping   dc
//   MADV_WIPEONFORK    has zeros        wf
//
// Only pages that are in memory or in swap are kept. The others read as zeros in anonymous
// mappings; in large files they cannot be read.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "platform/linux/proc/page_map.h"
#include "target/mapping.h"
#include "target/memory_reader.h"

namespace heapsnap {

class MissingMemory {
 public:
  // More than this is not kept: reading it takes a second.
  static constexpr uint64_t kMost = uint64_t{4} << 30;

  // Gets room for `bytes` ready, so that this need not be done while the target is stopped.
  void reserve(uint64_t bytes);
  // Keeps `mapping`, which is above those kept before, as `memory` and `pages` show it. Returns
  // false if that is too much, or has too many pages to look at each (64 GiB; where the kernel has
  // PAGEMAP_SCAN only those in memory or in swap count).
  bool keep(const Mapping& mapping, PageMap& pages, MemoryReader& memory);

  bool is_empty() const { return parts_.empty(); }
  // Whether `address` is in what is kept.
  bool holds(Address address) const { return find(address) != nullptr; }
  // Where what is kept begins again after `address`; the end of memory if it does not.
  Address next_begin(Address address) const;
  // Copies bytes from `from` on, which is in what is kept, up to the end of that mapping; returns
  // how many precede the first that cannot be read.
  size_t read(Address from, std::span<std::byte> out) const;
  // The states of pages from `page` on, which is in what is kept, up to the end of that mapping;
  // returns how many those are.
  size_t states(Address page, std::span<PageState> out) const;
  // Where pages may be there in `range`, which begins in what is kept; its end, or that of the
  // mapping, when none are.
  Address absent_until(AddressRange range) const;
  // How much of a kept mapping was in memory; nullopt for others.
  std::optional<PageMap::Bytes> bytes_of(const Mapping& mapping) const;

  // Where that is; neighbours are one range.
  std::vector<AddressRange> ranges() const;
  // The mappings of the target: what of `of_copy` is outside of those that are kept, and these.
  std::vector<Mapping> completed(const std::vector<Mapping>& of_copy) const;

 private:
  struct Run {
    AddressRange range;
    size_t offset = 0;  // in bytes_
  };
  // Pages of one state, up to where the next ones begin.
  struct PageRun {
    Address begin;
    PageState state;
  };
  struct Part {
    Mapping mapping;
    std::vector<PageRun> pages;  // none for an empty mapping
    std::vector<Run> runs;
  };
  const Part* find(Address address) const;
  // The first that begins behind `page`, which is in the part.
  static std::vector<PageRun>::const_iterator run_behind(const Part& part, Address page);
  bool look_at_pages(PageMap& pages, Part& part);
  bool keep_run(AddressRange range, MemoryReader& memory, Part& part);

  uint64_t page_size_ = 4096;
  uint64_t pages_looked_at_ = 0;
  std::vector<Part> parts_;
  std::vector<std::byte> bytes_;
  size_t used_ = 0;
};

}  // namespace heapsnap
