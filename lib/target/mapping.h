// One line of /proc/PID/maps as plain data, and what smaps(5) says of its pages.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/address.h"

namespace heapsnap {

struct Mapping {
  AddressRange range;
  bool readable = false;
  bool writable = false;
  bool executable = false;
  bool shared = false;
  uint64_t file_offset = 0;
  uint32_t device_major = 0;
  uint32_t device_minor = 0;
  uint64_t inode = 0;
  // As the kernel prints it, octal escapes undone: "/usr/lib/x.so", "[heap]", "[stack]", "" for
  // anonymous memory. The suffix " (deleted)" is taken off and kept in `deleted`.
  std::string path;
  bool deleted = false;

  bool is_anonymous() const { return inode == 0; }
  // Hugetlb heaps are named "/anon_hugepage (deleted)" and carry an inode, yet hold no file.
  bool is_anonymous_hugetlb() const { return deleted && path == "/anon_hugepage"; }
  bool is_private_writable() const { return readable && writable && !shared; }
  bool operator==(const Mapping&) const = default;
};

// Bytes, from /proc/PID/smaps (Documentation/filesystems/proc.rst). All zero where unknown (cores).
struct MappingUsage {
  uint64_t rss = 0;
  uint64_t pss = 0;
  uint64_t anonymous = 0;
  uint64_t swap = 0;
  uint64_t anon_huge = 0;  // AnonHugePages
  uint64_t hugetlb = 0;    // Private_Hugetlb + Shared_Hugetlb; not part of rss
  bool operator==(const MappingUsage&) const = default;
};

// The kernel writes these texts page by page and lets the process run in between: a mapping that
// grew downwards or was merged meanwhile appears again with a begin that lies in what was written
// before.
enum class TornText {
  kRefuse,  // of a stopped process: an overlap is damage
  kMend,  // of a running one: the later line is the newer truth, the earlier mapping ends before it
};

// Parses the text of /proc/PID/maps. Lines that do not parse throw Error{kBadInput}; ranges that
// are empty, unordered or overlap throw too, unless mended. Never reads anything.
std::vector<Mapping> parse_maps(std::string_view text, TornText torn = TornText::kRefuse);

// `above`, and what of `below` is outside these. Both are ascending, and so is the result.
std::vector<Mapping> overlaid(const std::vector<Mapping>& below, const std::vector<Mapping>& above);

// What a child made by fork(2) does not show of a mapping as it is, and what cannot just be read:
// from VmFlags of smaps.
struct MappingFlags {
  bool left_out = false;   // dc: madvise(MADV_DONTFORK)
  bool wiped = false;      // wf: madvise(MADV_WIPEONFORK)
  bool hugetlb = false;    // ht: its pages come from the pool of huge pages
  bool on_demand = false;  // um, uw, ui: who reads a page may wait for a reader of userfaultfd(2)
  bool operator==(const MappingFlags&) const = default;
};

// Parses the text of /proc/PID/smaps: the mappings, and the usage and flags of each at the same
// index. Unknown keys are skipped.
struct MappingsWithUsage {
  std::vector<Mapping> mappings;
  std::vector<MappingUsage> usage;
  std::vector<MappingFlags> flags;
};
MappingsWithUsage parse_smaps(std::string_view text, TornText torn = TornText::kRefuse);

}  // namespace heapsnap
