#include "report/json_report.h"

#include <algorithm>
#include <initializer_list>
#include <span>
#include <string_view>
#include <utility>

#include "analysis/context_account.h"
#include "analysis/object_census.h"
#include "report/advice_text.h"
#include "report/json_row.h"
#include "report/json_writer.h"
#include "report/largest_owners.h"
#include "report/next_step_text.h"
#include "report/number_text.h"
#include "report/object_report.h"
#include "report/old_blocks_report.h"
#include "report/owner_labels.h"
#include "report/reference_labels.h"
#include "report/stack_frames.h"

namespace heapsnap {

namespace {

constexpr size_t kListedSizes = 10;

const char* machine_text(Machine machine) {
  switch (machine) {
    case Machine::kX86_64: return "x86_64";
    case Machine::kAarch64: return "aarch64";
    case Machine::kI386: return "i386";
  }
  return "unknown";
}

const char* kind_text(SegmentKind kind) {
  switch (kind) {
    case SegmentKind::kBrk: return "brk";
    case SegmentKind::kThreadHeap: return "thread-heap";
    case SegmentKind::kMapped: return "mapped";
  }
  return "unknown";
}

void members(JsonWriter& json,
             std::initializer_list<std::pair<std::string_view, uint64_t>> numbers) {
  for (const auto& [name, number] : numbers) json.member(name, number);
}

void array(JsonWriter& json, std::string_view name, const std::vector<std::string>& texts) {
  json.key(name);
  json.begin_array();
  for (const std::string& text : texts) json.value(text);
  json.end_array();
}

// Objects of `elements`, the members of each written by `write`.
template <typename Elements, typename Write>
void objects(JsonWriter& json, std::string_view name, const Elements& elements, Write write) {
  json.key(name);
  json.begin_array();
  size_t index = 0;
  for (const auto& element : elements) {
    json.begin_object();
    write(element, index++);
    json.end_object();
  }
  json.end_array();
}

void object(JsonWriter& json, std::string_view name,
            std::initializer_list<std::pair<std::string_view, uint64_t>> numbers) {
  json.key(name);
  json.begin_object();
  members(json, numbers);
  json.end_object();
}

void page_members(JsonWriter& json, const PageBytes& bytes) {
  members(json, {{"resident", bytes.resident},
                 {"huge", bytes.huge},
                 {"swapped", bytes.swapped},
                 {"absent", bytes.absent},
                 {"unknown", bytes.unknown}});
}

void pages(JsonWriter& json, std::string_view name, const PageBytes& bytes) {
  json.key(name);
  json.begin_object();
  page_members(json, bytes);
  json.end_object();
}

void tally(JsonWriter& json, std::string_view name, const Tally& tally) {
  object(json, name, {{"count", tally.count}, {"bytes", tally.bytes}});
}

void figures(JsonWriter& json, std::string_view name, const StateFigures& figures) {
  json.key(name);
  json.begin_object();
  members(json, {{"count", figures.chunks.count}, {"bytes", figures.chunks.bytes}});
  page_members(json, figures.pages);
  json.end_object();
}

void states(JsonWriter& json, const FiguresByState& by_state) {
  json.key("states");
  json.begin_object();
  for (int i = 0; i < kChunkStateCount; ++i) {
    figures(json, to_string(static_cast<ChunkState>(i)), by_state[static_cast<size_t>(i)]);
  }
  json.end_object();
}

void trim(JsonWriter& json, const TrimEstimate& trim) {
  object(json, "trim",
         {{"resident", trim.resident()},
          {"bins", trim.bins},
          {"top", trim.top},
          {"swapped", trim.swapped},
          {"unknown", trim.unknown}});
}

void write_process(JsonWriter& json, const ReportInput& input) {
  const Process& process = input.metadata.process;
  json.member("writer", input.metadata.writer);
  json.member("snapshot", input.snapshot_path);
  json.member("snapshot_bytes", input.snapshot_bytes);
  json.member("taken_at", time_text(process.taken_at_ns));
  json.member("pid", process.pid);
  json.member("comm", process.comm);
  json.member("exe", process.exe);
  json.member("command_line", process.command_line);
  json.member("host", process.hostname);
  json.member("boot_id", process.boot_id);
  json.member("start_time", process.start_time_ticks);
  json.member("uid", process.uid);
  json.member("machine", machine_text(process.machine));
  json.member("page_size", process.page_size);
  json.member("fatal_signal", process.fatal_signal);
  json.member("threads", input.metadata.threads.size());
}

void write_freeze(JsonWriter& json, const FreezeRecord& freeze) {
  json.key("freeze");
  json.begin_object();
  write_row_members(json, freeze);
  array(json, "notes", freeze.notes);
  json.end_object();
}

void write_mallocs(JsonWriter& json, const ReportInput& input) {
  const auto& mmapped = input.summary.mmapped;
  objects(json, "mallocs", input.metadata.heap.instances,
          [&](const MallocInstance& instance, size_t index) {
            json.member("module", instance.module);
            json.member("build_id", instance.build_id);
            json.member("glibc", version_text(instance.version));
            json.member("discovery", to_string(instance.strategy));
            json.member("layout", instance.layout_source);
            json.member("main_arena", instance.main_arena);
            json.member("mp", instance.malloc_par);
            members(json, {{"n_mmaps", instance.n_mmaps},
                           {"mmapped_mem", instance.mmapped_mem},
                           {"mmapped_count", mmapped[index].count},
                           {"mmapped_bytes", mmapped[index].bytes},
                           {"tcache_count", instance.tcache_count}});
            array(json, "notes", instance.notes);
          });
  json.member("foreign_allocator", input.metadata.heap.foreign_allocator);
  json.member("foreign_answers_malloc", input.metadata.heap.foreign_answers_malloc);
}

void write_groups(JsonWriter& json, std::string_view name,
                  const std::vector<MappingGroup>& groups) {
  objects(json, name, groups, [&](const MappingGroup& group, size_t) {
    json.member("kind", to_string(group.kind));
    json.member("name", group.name);
    json.member("evidence", group.evidence);
    members(json, {{"count", group.count},
                   {"size", group.size},
                   {"resident", group.amount.resident},
                   {"swapped", group.amount.swapped}});
  });
}

void write_rss(JsonWriter& json, const ReportInput& input) {
  const RssAccount& account = input.account;
  json.key("rss");
  json.begin_object();
  json.member("basis", account.basis == RssBasis::kResident ? "resident" : "virtual");
  members(json, {{"resident", account.total.resident},
                 {"swapped", account.total.swapped},
                 {"hugetlb", account.hugetlb},
                 {"process_rss", account.process_rss},
                 {"process_swap", account.process_swap},
                 {"disagreement", account.disagreement}});
  json.key("rows");
  json.begin_object();
  for (int i = 0; i < kRssRowCount; ++i) {
    const RssRow row = static_cast<RssRow>(i);
    object(json, to_string(row),
           {{"resident", account[row].resident}, {"swapped", account[row].swapped}});
  }
  json.end_object();
  const ContextAccount contexts = account_contexts(account, input.metadata.runtimes);
  objects(json, "contexts", contexts.rows, [&](const ContextAccount::Row& row, size_t) {
    json.member("name", row.name);
    members(json, {{"count", row.contexts},
                   {"resident", row.amount.resident},
                   {"swapped", row.amount.swapped}});
  });
  write_groups(json, "other_anonymous", input.rest_groups.other_memory);
  write_groups(json, "largest_files", input.rest_groups.files);
  write_groups(json, "largest_file_data", input.rest_groups.file_data);
  write_groups(json, "largest_shared", input.rest_groups.shared);
  json.end_object();
}

void write_advice(JsonWriter& json, const ReportInput& input) {
  objects(json, "advice", input.advice, [&](const Advice& advice, size_t) {
    const AdviceText text = advice_text(advice, input.metadata, input.snapshot_path);
    json.member("kind", to_string(advice.kind));
    members(json, {{"bytes", advice.bytes},
                   {"saves_least", advice.saves_least},
                   {"saves_most", advice.saves_most},
                   {"overlap", advice.overlap},
                   {"count", advice.count},
                   {"other_count", advice.other_count}});
    json.key("overlaps");
    json.begin_array();
    for (const size_t other : advice.overlaps) json.value(to_string(input.advice[other].kind));
    json.end_array();
    json.member("finding", text.finding);
    json.member("action", text.action);
  });
  const SavedTogether& together = input.saved_together;
  json.key("advice_together");
  json.begin_object();
  json.key("kinds");
  json.begin_array();
  for (const size_t item : together.items) json.value(to_string(input.advice[item].kind));
  json.end_array();
  members(json, {{"saves_least", together.least}, {"saves_most", together.most}});
  json.end_object();
}

void write_arenas(JsonWriter& json, const ReportInput& input) {
  objects(json, "arenas", input.metadata.heap.arenas, [&](const Arena& arena, size_t index) {
    const ArenaSummary& summary = input.summary.arenas[index];
    json.member("index", index);
    json.member("address", arena.address);
    json.member("malloc", arena.instance);
    json.member("main", arena.is_main);
    json.member("noncontiguous", arena.is_noncontiguous);
    json.member("locked", arena.was_locked);
    members(json, {{"system_mem", arena.system_mem},
                   {"max_system_mem", arena.max_system_mem},
                   {"attached_threads", arena.attached_threads},
                   {"walked", arena.walked}});
    json.member("top", arena.top);
    states(json, summary.states);
    pages(json, "own", summary.own);
    trim(json, summary.trim);
    json.member("largest_free", summary.largest_free);
    json.member("free_share", summary.free_share());
    json.member("scatter", summary.scatter());
  });
  objects(json, "segments", input.metadata.heap.segments, [&](const HeapSegment& segment, size_t) {
    json.member("begin", segment.range.begin);
    json.member("end", segment.range.end);
    json.member("arena", segment.arena);
    json.member("segment_kind", kind_text(segment.kind));
    json.member("system_bytes", segment.system_bytes);
  });
}

void write_size_classes(JsonWriter& json, std::string_view name,
                        std::span<const SizeClass> classes) {
  objects(json, name, classes, [&](const SizeClass& sizes, size_t) {
    members(json, {{"begin", sizes.begin}, {"end", sizes.end}});
    tally(json, "used", sizes.used);
    tally(json, "free", sizes.free);
  });
}

void write_large_chunks(JsonWriter& json, std::string_view name,
                        const std::vector<LargeChunk>& chunks) {
  objects(json, name, chunks, [&](const LargeChunk& chunk, size_t) {
    json.member("addr", chunk.pointer);
    json.member("size", chunk.size);
    json.member("state", to_string(chunk.state));
    json.member("arena", chunk.arena);
  });
}

void write_heap(JsonWriter& json, const HeapSummary& summary) {
  json.member("pages_known", summary.pages_known);
  states(json, summary.totals);
  pages(json, "headers", summary.headers);
  pages(json, "tcache_structs", summary.tcache_structs);
  trim(json, summary.trim);
  object(json, "kept",
         {{"tcache", summary.kept.tcache},
          {"bins", summary.kept.bins},
          {"main_top", summary.kept.main_top},
          {"other_tops", summary.kept.other_tops}});
  figures(json, "large_free", summary.large_free);
  tally(json, "large_used", summary.large_used);
  write_size_classes(json, "size_classes", summary.size_classes);
  write_size_classes(json, "common_sizes", summary.common_sizes);
  const std::span<const SizeClass> used = summary.used_sizes;
  write_size_classes(json, "largest_sizes", used.first(std::min(used.size(), kListedSizes)));
  write_large_chunks(json, "largest_used", summary.largest_used);
  write_large_chunks(json, "largest_free", summary.largest_free);
}

// `heapsnap objects -j` has their objects by class.
void write_runtimes(JsonWriter& json, const SnapshotMetadata& metadata) {
  objects(json, "runtimes", metadata.runtimes.runtimes,
          [&](const Runtime&, size_t number) { write_json_runtime(json, metadata, number); });
}

void write_findings(JsonWriter& json, const SnapshotMetadata& metadata) {
  objects(json, "thread_caches", metadata.heap.thread_caches,
          [&](const ThreadCache& cache, size_t) { write_row_members(json, cache); });
  objects(json, "corruptions", metadata.heap.corruptions,
          [&](const Corruption& corruption, size_t) { write_row_members(json, corruption); });
  array(json, "notes", metadata.notes);
}

// The first stacks of a tracked process; `heapsnap stacks -j` has all of them, with all frames.
void write_tracking(JsonWriter& json, const StackReportInput& input) {
  const TrackerRecord& tracker = *input.metadata.tracker;
  json.key("tracking");
  json.begin_object();
  json.member("recording", tracker.recording);
  json.member("sample_bytes", tracker.sample_bytes);
  json.member("live_blocks", input.census.live_blocks);
  json.member("live_bytes", input.census.live_bytes);
  tally(json, "without_stack", input.census.without_stack);
  objects(json, "top_stacks", input.ranked, [&](uint32_t id, size_t) {
    const StackFigures& figures = input.census.stacks[id];
    json.member("stack", id);
    json.member("live_blocks", figures.live_blocks);
    json.member("live_bytes", figures.live_bytes);
    const auto frames = frames_of_stack(input.recorded, tracker, id);
    json.key("functions");
    json.begin_array();
    for (const NamedFrame& frame : frames) json.value(function_label(frame));
    json.end_array();
  });
  write_json_old_blocks(json, input);
  json.end_object();
}

// What keeps the blocks in use: the largest owners; `heapsnap owners -j` has all of them.
void write_owners(JsonWriter& json, const ReportInput& input) {
  if (input.owners == nullptr) {
    json.member("why_no_references", why_no_owners(input.metadata));
    return;
  }
  const OwnerSums& sums = *input.owners;
  const OwnerLabels labels(input.metadata, sums.places, sums.threads, sums.groups);
  objects(json, "owners", largest_owners(sums), [&](const OwnerSum& owner, size_t) {
    if (owner.is_several) {
      labels.write_json_several(json, owner.place);
    } else {
      labels.write_json_place(json, owner.place);
    }
    members(json,
            {{"retained_bytes", owner.retained.bytes}, {"retained_blocks", owner.retained.count}});
  });
  members(json, {{"blocks_in_use", sums.in_use.count},
                 {"bytes_in_use", sums.in_use.bytes},
                 {"leaked_blocks", sums.leaked.count},
                 {"leaked_bytes", sums.leaked.bytes}});
  const OwnerCommands commands = owner_commands(input);
  array(json, "owner_commands", {commands.owners, commands.leaks});
}

void write_next_step(JsonWriter& json, const ReportInput& input) {
  const NextStepText text = next_step_text(input);
  json.key("next_step");
  json.begin_object();
  json.member("subject", to_string(input.next.subject));
  json.member("why", text.why);
  array(json, "commands", text.commands);
  json.key("more");
  json.begin_array();
  for (const NextStepPart& part : text.more) {
    json.begin_object();
    json.member("text", part.text);
    array(json, "commands", part.commands);
    json.end_object();
  }
  json.end_array();
  json.end_object();
}

}  // namespace

void print_json_report(Writer& out, const ReportInput& input) {
  JsonWriter json(out);
  json.begin_object();
  json.member("kind", "report");
  json.member("version", 1);
  write_process(json, input);
  write_freeze(json, input.metadata.freeze);
  write_mallocs(json, input);
  write_rss(json, input);
  write_advice(json, input);
  write_heap(json, input.summary);
  write_arenas(json, input);
  write_findings(json, input.metadata);
  if (input.stacks != nullptr) write_tracking(json, *input.stacks);
  write_runtimes(json, input.metadata);
  write_owners(json, input);
  write_next_step(json, input);
  json.end_object();
  out.write("\n");
}

}  // namespace heapsnap
