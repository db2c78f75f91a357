#include "snapshot/call_stack_tables.h"

#include "base/error.h"
#include "snapshot/table_check.h"
#include "tracking/tracking_reader.h"

namespace heapsnap {

namespace {

constexpr uint64_t kMaxStrings = 16U << 20;
constexpr uint64_t kMaxFrames = SourceFrames::kMostFrames;
constexpr uint64_t kMaxTextBytes = 1U << 30;

struct StringRow {
  std::string text;
};

// A frame of the source, with the place that it belongs to.
struct CodeFrameRow {
  int32_t module = -1;
  Address address;
  SourceFrame frame;
};

}  // namespace

template <>
struct TableOf<StringRow> {
  static constexpr const char* kName = "strings";
  static void columns(auto& column, auto& row) { column("text", row.text); }
};

template <>
struct TableOf<CodeFrameRow> {
  static constexpr const char* kName = "code_frames";
  static void columns(auto& column, auto& row) {
    column("module", row.module);
    column("return_address", row.address);
    column("function", row.frame.function);
    column("file", row.frame.file);
    column("line", row.frame.line);
    column("offset", row.frame.offset);
    column("inlined", row.frame.is_inlined);
    column("language", row.frame.language);
  }
};

void write_call_stacks(const CallStacks& stacks, SectionSink& sink) {
  write_table(std::span<const CallNode>(stacks.nodes), sink, format::SectionKind::kCallStacks);
  write_table(std::span<const AllocationSite>(stacks.sites), sink,
              format::SectionKind::kCallStacks);
}

void write_symbols(const SourceFrames& symbols, SectionSink& sink) {
  TableWriter<StringRow> strings(format::SectionKind::kCallStacks, sink);
  for (const std::string& text : symbols.strings()) strings.add({text});
  strings.finish();
  TableWriter<CodeFrameRow> frames(format::SectionKind::kCallStacks, sink);
  for (const SourceFrames::Place& place : symbols.places()) {
    for (const SourceFrame& frame : std::span(symbols.frames()).subspan(place.first, place.count)) {
      frames.add({place.module, place.return_address, frame});
    }
  }
  frames.finish();
}

void CallStackBuilder::add(std::span<const std::byte> bytes, const std::string& source) {
  TableCursor table(bytes, source);
  if (table.name() == TableOf<CallNode>::kName) {
    std::vector<CallNode>& nodes = all_.stacks.nodes;
    check_table(table.rows() <= kMaxCallNodes - nodes.size(), source, "it has too many frames");
    for (CallNode row; table.next(row); row = CallNode{}) {
      const bool is_frame = nodes.size() >= tracker::kFirstNode;
      check_table(!is_frame || row.parent < nodes.size(), source,
                  "a frame was called by one that comes after it");
      check_table(row.module >= -1 && row.module < static_cast<int64_t>(modules_), source,
                  "a frame in a module that does not exist");
      nodes.push_back(row);
    }
  } else if (table.name() == TableOf<AllocationSite>::kName) {
    std::vector<AllocationSite>& sites = all_.stacks.sites;
    check_table(table.rows() <= kMaxAllocationSites - sites.size(), source,
                "it has too many stacks");
    for (AllocationSite row; table.next(row); row = AllocationSite{}) sites.push_back(row);
  } else if (table.name() == TableOf<StringRow>::kName) {
    check_table(table.rows() <= kMaxStrings - strings_.size(), source, "it has too many names");
    for (StringRow row; table.next(row);) {
      text_bytes_ += row.text.size();
      check_table(text_bytes_ <= kMaxTextBytes, source, "its names are too long");
      strings_.push_back(std::move(row.text));
    }
  } else if (table.name() == TableOf<CodeFrameRow>::kName) {
    add_frames(table, source);
  }
}

void CallStackBuilder::add_frames(TableCursor& table, const std::string& source) {
  frame_count_ += table.rows();
  check_table(frame_count_ <= kMaxFrames, source, "it has too many frames with names");
  for (CodeFrameRow row; table.next(row); row = CodeFrameRow{}) {
    if (row.module != module_ || row.address != address_) {
      all_.symbols.add(module_, address_, frames_);
      frames_.clear();
      module_ = row.module;
      address_ = row.address;
    }
    frames_.push_back(row.frame);
  }
}

RecordedStacks CallStackBuilder::take(const std::string& source) {
  const size_t nodes = std::max<size_t>(all_.stacks.nodes.size(), tracker::kFirstNode);
  for (const AllocationSite& site : all_.stacks.sites) {
    check_table(site.node < nodes, source, "a stack begins with a frame that does not exist");
  }
  check_table(all_.stacks.cut_deep_stacks() == 0, source, "a call stack is too deep");
  all_.symbols.add(module_, address_, frames_);
  const size_t strings = std::max<size_t>(strings_.size(), 1);
  for (const SourceFrame& frame : all_.symbols.frames()) {
    check_table(frame.function < strings && frame.file < strings, source,
                "a frame has a name that does not exist");
  }
  all_.symbols.set_strings(std::move(strings_));
  all_.symbols.sort();
  return std::move(all_);
}

}  // namespace heapsnap
