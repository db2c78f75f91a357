#include <utility>

#include "report/json_head.h"
#include "report/json_row.h"
#include "report/json_writer.h"
#include "report/old_blocks_report.h"
#include "report/stack_frames.h"
#include "report/stack_report.h"

namespace heapsnap {

namespace {

const char* order_name(StackOrder order) {
  switch (order) {
    case StackOrder::kLiveBytes: return "live-bytes";
    case StackOrder::kLiveBlocks: return "live-blocks";
    case StackOrder::kRate: return "rate";
    case StackOrder::kChurn: return "churn";
  }
  return "unknown";
}

void write_tally(JsonWriter& json, const char* name, const Tally& tally) {
  json.key(name);
  json.begin_object();
  json.member("blocks", tally.count);
  json.member("bytes", tally.bytes);
  json.end_object();
}

void write_head(JsonWriter& json, const StackReportInput& input, const char* by) {
  const SnapshotMetadata& metadata = input.metadata;
  const TrackerRecord& tracker = *metadata.tracker;
  write_json_head(json, "stacks", metadata, input.snapshot_path);
  json.member("by", by);
  json.member("sort", order_name(input.order));
  json.member("sort_total", total_of(input.census, input.recorded.stacks, input.order));
  json.key("tracker");
  json.begin_object();
  json.member("recording", tracker.recording);
  json.member("recorded_ns", tracker.recorded_ns);
  json.member("sample_bytes", tracker.sample_bytes);
  json.member("max_frames", tracker.max_frames);
  json.member("memory_limit", tracker.memory_limit);
  json.member("memory_reserved", tracker.memory_reserved);
  json.member("memory_used", tracker.memory_used);
  json.key("limits");
  json.begin_array();
  for (const std::string& name : limit_names(tracker.limits)) json.value(name);
  json.end_array();
  json.member("dropped_blocks", tracker.dropped_slots);
  json.member("dropped_stacks", tracker.dropped_stacks);
  json.member("nested_events", tracker.nested_events);
  json.member("limit_reached_after_ns", limit_reached_after(tracker));
  json.member("unrecorded", tracker.unrecorded);
  json.key("notes");
  json.begin_array();
  for (const std::string& note : tracker.notes) json.value(note);
  json.end_array();
  json.end_object();
  json.member("live_blocks", input.census.live_blocks);
  json.member("live_bytes", input.census.live_bytes);
  write_tally(json, "without_stack", input.census.without_stack);
  write_tally(json, "damaged", input.census.strange);
  write_json_old_blocks(json, input);
}

void write_stack(JsonWriter& json, const StackReportInput& input, size_t index) {
  const uint32_t id = input.ranked[index];
  const AllocationSite& site = input.recorded.stacks.sites[id];
  const StackFigures& figures = input.census.stacks[id];
  json.begin_object();
  json.member("stack", id);
  json.member("live_blocks", figures.live_blocks);
  json.member("live_bytes", figures.live_bytes);
  json.member("share",
              input.census.live_bytes > 0 ? figures.live_bytes / input.census.live_bytes : 0.0);
  json.member("sort_value", measure_of(input.census, input.recorded.stacks, input.order, id));
  json.member("blocks_found", figures.blocks_found);
  json.member("sample_bytes", site.sample_bytes);
  json.member("allocations", site.allocation_count());
  json.member("frees", site.free_count());
  json.member("allocated_bytes", site.allocated_bytes);
  json.member("freed_bytes", site.freed_bytes);
  json.key("sizes");
  json.begin_array();
  for (const SizeCount& one : input.sizes[index]) {
    json.begin_object();
    json.member("size", one.size);
    json.member("count", one.count);
    json.end_object();
  }
  json.end_array();
  StackEnd end{};
  const auto frames = named_frames(input.recorded, *input.metadata.tracker, site.node, end);
  write_json_frames(json, frames, end);
  json.end_object();
}

}  // namespace

void print_json_stacks(Writer& out, const StackReportInput& input) {
  JsonWriter json(out);
  json.begin_object();
  write_head(json, input, "stack");
  json.key("stacks");
  json.begin_array();
  for (size_t i = 0; i < input.ranked.size(); ++i) write_stack(json, input, i);
  json.end_array();
  json.end_object();
  out.write("\n");
}

void print_json_stack_groups(Writer& out, const StackReportInput& input,
                             const FunctionGroups& groups, const std::string& what) {
  JsonWriter json(out);
  json.begin_object();
  write_head(json, input, what.c_str());
  json.key("groups");
  json.begin_array();
  for (const StackGroup& group : groups.groups) {
    json.begin_object();
    json.member("name", group.name);
    json.member("live_bytes", group.live_bytes);
    json.member("live_blocks", group.live_blocks);
    json.member("live_bytes_below", group.live_bytes_below);
    json.member("sort_value", measure_of(group, input.order));
    json.member("allocations", group.allocations);
    json.member("frees", group.frees);
    json.member("allocated_bytes", group.allocated_bytes);
    json.member("freed_bytes", group.freed_bytes);
    json.end_object();
  }
  json.end_array();
  if (what == "function") {
    json.key("passed_over");
    json.begin_array();
    for (const CommonAllocator& one : groups.passed) {
      json.begin_object();
      json.member("name", one.name);
      json.member("callers", uint64_t{one.callers});
      json.end_object();
    }
    json.end_array();
  }
  json.end_object();
  out.write("\n");
}

void print_json_tracked_threads(Writer& out, const StackReportInput& input,
                                std::span<const uint32_t> ranked) {
  JsonWriter json(out);
  json.begin_object();
  write_head(json, input, "thread");
  json.key("threads");
  json.begin_array();
  for (const uint32_t index : ranked) {
    json.begin_object();
    write_row_members(json, input.metadata.tracker->threads[index]);
    json.end_object();
  }
  json.end_array();
  json.end_object();
  out.write("\n");
}

}  // namespace heapsnap
