// Where the resident set went: one table whose rows add up to the whole, exactly.
//
// The whole is what the kernel says of each mapping (smaps: Rss, and hugetlb pages, which Rss
// leaves out). Inside a mapping, what chunks and allocator structures take comes from the states
// of its pages, by the byte, and so does what a language runtime's areas consist of; the rest of
// the mapping belongs to what the mapping is (a stack, a library, shared memory, ...). The same
// again for swap.
//
// Where nothing says which pages are resident (cores), every mapping counts with its size, and
// `basis` says so.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "analysis/heap_summary.h"
#include "snapshot/metadata.h"

namespace heapsnap {

enum class RssRow : uint8_t {
  kProgram = 0,  // the first eight are HeapShare's
  kMmapped = 1,
  kOverhead = 2,
  kTcache = 3,
  kFastbin = 4,
  kBins = 5,
  kTop = 6,
  kUnwalked = 7,
  kStacks = 8,          // [stack] and mappings that hold a thread's stack pointer
  kFiles = 9,           // pages of libraries and other mapped files, the vdso
  kFileData = 10,       // their private copies (.data, relocations), the executable's .bss
  kShared = 11,         // shared memory without a file on disk
  kTracker = 12,        // tables, working memory and library of heapsnap's own tracker
  kPythonObjects = 13,  // used slots of a Python interpreter's pools: RuntimeArea::used
  kPythonPools = 14,    // free in them: free_in_page
  kPythonArenas = 15,   // pools without a used slot: free_in_area
  kRubyObjects = 16,    // the same of Ruby's pages, but for those in blocks of malloc
  kRubyPages = 17,
  kRubyFreePages = 18,
  kRubyTransient = 19,   // all of RuntimeArea::is_transient, unless in a block of malloc
  kOtherAnonymous = 20,  // other allocators, JIT code, .bss of libraries, mmap by the program
  kUnknown = 21,         // chunks in pages of unknown state: resident, but not known which
};
inline constexpr int kRssRowCount = 22;
const char* to_string(RssRow row);  // "used", "mmapped", "overhead", ...
// Of a language runtime, which few processes have.
constexpr bool is_of_runtime(RssRow row) {
  return row >= RssRow::kPythonObjects && row <= RssRow::kRubyTransient;
}

enum class RssBasis : uint8_t {
  kResident,  // bytes in memory
  kVirtual,   // address space: residency is unknown
};

struct RssAccount {
  struct Amount {
    uint64_t resident = 0;  // by kVirtual: bytes of address space
    uint64_t swapped = 0;
    bool operator==(const Amount&) const = default;
  };
  RssBasis basis = RssBasis::kResident;
  std::array<Amount, kRssRowCount> rows{};
  Amount total;          // sum of the rows, and of the mappings
  uint64_t hugetlb = 0;  // part of total.resident that no RSS counts
  // What /proc/PID said of the whole process; 0 where unknown.
  uint64_t process_rss = 0;
  uint64_t process_swap = 0;
  // Bytes of chunks in resident pages beyond what the kernel says of their mapping: it changed
  // between the two readings. The rows of such a mapping are scaled down to fit.
  uint64_t disagreement = 0;
  // Of each mapping, as SnapshotMetadata::mappings: what is no heap's, and the row that counts it.
  // Of a file without the private copies of its pages, which RssRow::kFileData counts.
  struct Rest {
    RssRow row = RssRow::kOtherAnonymous;
    Amount amount;
    Amount private_pages;        // of a file: these copies
    uint64_t runtime_bytes = 0;  // of the mapping, in a runtime's areas: not in `amount`
  };
  std::vector<Rest> rests;

  // Whether the sum of the mappings is within 1 % of the process's own counter, or that is unknown.
  bool agrees_with_process() const;

  const Amount& operator[](RssRow row) const { return rows[static_cast<size_t>(row)]; }
  Amount& operator[](RssRow row) { return rows[static_cast<size_t>(row)]; }
};

// `summary` is of the same snapshot as `metadata`.
RssAccount account_rss(const SnapshotMetadata& metadata, const HeapSummary& summary);

}  // namespace heapsnap
