// The call stacks of a tracked process as tables, both ways. (chunk_block.h has the ids of chunks.)
//
// They can be long (a large program has a million frames), so they are not metadata: a reader reads
// them only when needed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "snapshot/section.h"
#include "snapshot/table.h"
#include "tracking/call_stacks.h"
#include "tracking/source_frames.h"

namespace heapsnap {

// What a snapshot knows of call stacks: empty when the process was not tracked.
struct RecordedStacks {
  CallStacks stacks;
  SourceFrames symbols;  // as far as they were looked up when the snapshot was taken
};

template <>
struct EnumRange<FrameLanguage> {
  static constexpr FrameLanguage kFirst = FrameLanguage::kNative;
  static constexpr FrameLanguage kLast = FrameLanguage::kRuby;
  static constexpr FrameLanguage kUnknown = FrameLanguage::kNative;
};

template <>
struct TableOf<CallNode> {
  static constexpr const char* kName = "stack_nodes";
  static void columns(auto& column, auto& row) {
    column("parent", row.parent);
    column("module", row.module);
    column("return_address", row.return_address);
  }
};

template <>
struct TableOf<AllocationSite> {
  static constexpr const char* kName = "stacks";
  static void columns(auto& column, auto& row) {
    column("node", row.node);
    column("depth", row.depth);
    column("sample_bytes", row.sample_bytes);
    column("allocations", row.allocations);
    column("frees", row.frees);
    column("allocated_bytes", row.allocated_bytes);
    column("freed_bytes", row.freed_bytes);
  }
};

void write_call_stacks(const CallStacks& stacks, SectionSink& sink);
void write_symbols(const SourceFrames& symbols, SectionSink& sink);

// Collects them from tables.
class CallStackBuilder {
 public:
  // `modules`: rows of the table of modules.
  explicit CallStackBuilder(size_t modules) : modules_(modules) {}

  // `table`: bytes of one table; unknown ones are passed over. Throws Error{kBadInput} for damage,
  // for invalid ids, and for more rows than a file may have.
  void add(std::span<const std::byte> table, const std::string& source);
  RecordedStacks take(const std::string& source);

 private:
  void add_frames(TableCursor& table, const std::string& source);

  size_t modules_;
  RecordedStacks all_;
  std::vector<std::string> strings_;
  uint64_t text_bytes_ = 0;
  // The place whose frames are coming in.
  int32_t module_ = -1;
  Address address_;
  std::vector<SourceFrame> frames_;
  uint64_t frame_count_ = 0;
};

}  // namespace heapsnap
