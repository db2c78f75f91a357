// The memory outside of malloc's heaps, put together by what it looks like: what a row of the
// account of the resident set consists of.
//
// Nothing in a process says what an anonymous mapping is for. What can be known of it is its name,
// where it has one, its rights, its size and place, its neighbours and which files are mapped; so
// each kind below names its evidence, and a report words it as a likeness.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/heap_summary.h"
#include "analysis/rss_account.h"
#include "snapshot/metadata.h"

namespace heapsnap {

enum class MappingKind : uint8_t {
  kNamed,      // by the kernel or by PR_SET_VMA_ANON_NAME: "[heap]", "[anon:v8]"
  kHugePages,  // of hugetlbfs, without a file
  kCode,       // executable, as a JIT compiler's code is
  kStacks,     // above a guard page, of a size that stacks have: of threads that ended, of fibers
  kPython,     // cut as the memory of that runtime is, which is mapped: language_runtime.h
  kRuby,
  kV8,
  kJava,
  kAllocator,  // of a process whose malloc is not glibc's; `evidence` is the allocator
  kSameSize,   // several mappings of one size, as an allocator's arenas are
  kLarge,      // one mapping that is large by itself
  kFile,       // of the file `name`
  kOthers,     // all that is left
};
const char* to_string(MappingKind kind);  // "named", "hugetlb", "code", ...

struct MappingGroup {
  MappingKind kind = MappingKind::kOthers;
  std::string name = {};      // of kNamed and kFile
  std::string evidence = {};  // file name of the runtime, name of the allocator; else empty
  uint64_t count = 0;         // mappings; of group_by_file: files
  uint64_t size = 0;          // of each, without what is malloc's; 0: they differ
  uint64_t unit = 0;          // of a runtime: LanguageRuntime::unit
  RssAccount::Amount amount;
  bool operator==(const MappingGroup&) const = default;
};

// What the rows of the account consist of that no heap explains.
struct RestGroups {
  std::vector<MappingGroup> other_memory;  // of RssRow::kOtherAnonymous
  std::vector<MappingGroup> files;         // of kFiles
  std::vector<MappingGroup> file_data;     // of kFileData
  std::vector<MappingGroup> shared;        // of kShared
};
// All four of them, as many groups of each as a screen has room for.
RestGroups group_rests(const SnapshotMetadata& metadata, const HeapSummary& summary,
                       const RssAccount& account);

// The groups of a row, the largest first and kOthers last: at most `most` and kOthers, which also
// has each group of less than 1 %. Their amounts add up to what RssAccount::rests has in that row,
// exactly.
std::vector<MappingGroup> group_other_memory(const SnapshotMetadata& metadata,
                                             const HeapSummary& summary, const RssAccount& account,
                                             size_t most);
// Of RssRow::kFiles, kFileData or kShared, by file.
std::vector<MappingGroup> group_by_file(const SnapshotMetadata& metadata, const RssAccount& account,
                                        RssRow row, size_t most);

}  // namespace heapsnap
