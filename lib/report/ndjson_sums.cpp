#include "report/ndjson_sums.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "analysis/diff_names.h"
#include "analysis/heap_summary.h"
#include "analysis/owner_sums.h"
#include "analysis/rss_account.h"
#include "analysis/stack_census.h"
#include "analysis/stack_groups.h"
#include "base/file_name.h"
#include "report/json_writer.h"
#include "report/number_text.h"
#include "report/stack_frames.h"
#include "report/stack_identity.h"
#include "report/stack_labels.h"

namespace heapsnap {

namespace {

constexpr int64_t kNanosecondsPerMs = 1'000'000;

// Rows of one snapshot: what they have in common is written by begin().
class SumRows {
 public:
  SumRows(const SnapshotMetadata& metadata, Writer& out)
      : process_(metadata.process), target_(target_name(metadata)), out_(out), json_(out) {}

  JsonWriter& begin(const char* kind, std::string_view name) {
    json_ = JsonWriter(out_);
    json_.begin_object();
    json_.member("kind", kind);
    json_.member("version", 1);
    json_.member("host", process_.hostname);
    json_.member("target", target_);
    text_or_null("boot_id", process_.boot_id);
    json_.member("pid", process_.pid);
    json_.key("start_time");
    if (process_.start_time_ticks == 0) {
      json_.null();
    } else {
      json_.value(process_.start_time_ticks);
    }
    json_.member("comm", process_.comm);
    json_.member("exe", process_.exe);
    text_or_null("build_id", process_.build_id);
    json_.member("taken_at", time_text(process_.taken_at_ns));
    json_.member("taken_at_ms", process_.taken_at_ns / kNanosecondsPerMs);
    json_.member("name", name);
    return json_;
  }
  void end() {
    json_.end_object();
    out_.write("\n");
  }

 private:
  void text_or_null(std::string_view name, const std::string& text) {
    json_.key(name);
    if (text.empty()) {
      json_.null();
    } else {
      json_.value(text);
    }
  }

  const Process& process_;
  std::string target_;
  Writer& out_;
  JsonWriter json_;
};

void write_account_rows(SumRows& rows, const RssAccount& account) {
  for (int i = 0; i < kRssRowCount; ++i) {
    const auto row = static_cast<RssRow>(i);
    if (is_of_runtime(row) && account[row] == RssAccount::Amount{}) continue;
    JsonWriter& json = rows.begin("account", to_string(row));
    json.member("bytes", account[row].resident);
    json.member("swapped", account[row].swapped);
    rows.end();
  }
}

void write_size_rows(SumRows& rows, const HeapSummary& summary) {
  std::vector<SizeClass> sizes = summary.used_sizes;
  std::sort(sizes.begin(), sizes.end(),
            [](const SizeClass& a, const SizeClass& b) { return a.begin < b.begin; });
  for (const SizeClass& each : sizes) {
    JsonWriter& json = rows.begin("size", size_class_name(each));
    json.member("size", each.begin);
    json.member("blocks", each.used.count);
    json.member("bytes", each.used.bytes);
    json.member("free_blocks", each.free.count);
    json.member("free_bytes", each.free.bytes);
    rows.end();
  }
}

void write_arena_rows(SumRows& rows, const SnapshotMetadata& metadata, const HeapSummary& summary) {
  const size_t count = std::min(metadata.heap.arenas.size(), summary.arenas.size());
  for (size_t i = 0; i < count; ++i) {
    const FiguresByState& states = summary.arenas[i].states;
    const Tally used = used_figures(states).chunks;
    const Tally free = free_figures(states).chunks;
    JsonWriter& json = rows.begin("arena", std::to_string(i));
    json.member("blocks", used.count);
    json.member("bytes", metadata.heap.arenas[i].system_mem);
    json.member("free_blocks", free.count);
    json.member("free_bytes", free.bytes);
    rows.end();
  }
}

// Stacks that have one id: they differ in lines of their functions only.
struct SameStacks {
  uint64_t id = 0;
  uint32_t first = 0;  // the one with the most live bytes
  double live_blocks = 0;
  double live_bytes = 0;
  double allocations = 0;
  double frees = 0;
  uint64_t allocated_bytes = 0;
  uint64_t freed_bytes = 0;
};

std::vector<NamedFrame> frames_of(const StackReportInput& input, uint32_t number) {
  return frames_of_stack(input.recorded, *input.metadata.tracker, number);
}

// In the order of `ranked`.
std::vector<SameStacks> merged_stacks(const StackReportInput& input) {
  std::vector<SameStacks> merged;
  std::unordered_map<uint64_t, size_t> places;
  for (const uint32_t number : input.ranked) {
    const uint64_t id = stack_identity(frames_of(input, number));
    const auto [place, is_new] = places.try_emplace(id, merged.size());
    if (is_new) merged.push_back({.id = id, .first = number});
    const AllocationSite& site = input.recorded.stacks.sites[number];
    SameStacks& sum = merged[place->second];
    sum.live_blocks += input.census.stacks[number].live_blocks;
    sum.live_bytes += input.census.stacks[number].live_bytes;
    sum.allocations += site.allocation_count();
    sum.frees += site.free_count();
    sum.allocated_bytes += site.allocated_bytes;
    sum.freed_bytes += site.freed_bytes;
  }
  return merged;
}

void write_stack_rows(SumRows& rows, const SnapshotMetadata& metadata,
                      const RecordedStacks& recorded, const StackCensus& census) {
  StackReportInput input{metadata, recorded, census, StackOrder::kLiveBytes, {}, {}, {}};
  input.ranked = ranked_stacks(census, recorded.stacks, StackOrder::kLiveBytes, 0);
  pass_over_unnamed(census, recorded, *metadata.tracker, input.passed);
  for (const SameStacks& sum : merged_stacks(input)) {
    const std::string id = identity_text(sum.id);
    const std::string name = charged_function(input, sum.first);
    JsonWriter& frames = rows.begin("frames", name);
    frames.member("id", id);
    frames.key("frames");
    frames.begin_array();
    for (const NamedFrame& frame : frames_of(input, sum.first)) {
      frames.value(portable_label(frame));
    }
    frames.end_array();
    rows.end();
    JsonWriter& json = rows.begin("stack", name);
    json.member("id", id);
    json.member("blocks", whole_number(sum.live_blocks));
    json.member("bytes", whole_number(sum.live_bytes));
    json.member("allocations", whole_number(sum.allocations));
    json.member("frees", whole_number(sum.frees));
    json.member("allocated_bytes", sum.allocated_bytes);
    json.member("freed_bytes", sum.freed_bytes);
    rows.end();
  }
}

// What each root retains, under names that mean the same on every host and in every build.
void write_owner_rows(SumRows& rows, const SnapshotMetadata& metadata, const OwnerSums& sums) {
  // Of the bytes in use: smaller owners are left out.
  constexpr uint64_t kLeastShare = 100;
  const RootNames names(metadata, NameScope::kSeveralBuilds);
  std::map<std::string, Tally> by_name;
  for (const OwnerSum& owner : sums.owners) {
    Tally& tally = by_name[owner_name(owner, sums, names)];
    tally.count += owner.retained.count;
    tally.bytes += owner.retained.bytes;
  }
  const auto write = [&rows](const char* kind, const std::string& name, const Tally& tally) {
    JsonWriter& json = rows.begin(kind, name);
    json.member("blocks", tally.count);
    json.member("bytes", tally.bytes);
    rows.end();
  };
  for (const auto& [name, tally] : by_name) {
    if (tally.bytes >= sums.in_use.bytes / kLeastShare) write("owner", name, tally);
  }
  write("leaked", "leaked", sums.leaked);
}

void write_process_row(SumRows& rows, const SnapshotMetadata& metadata, const HeapSummary& summary,
                       const RssAccount& account, const std::string& file) {
  const Process& process = metadata.process;
  const Tally used = used_figures(summary.totals).chunks;
  const Tally free = free_figures(summary.totals).chunks;
  JsonWriter& json = rows.begin("process", process.comm);
  json.member("blocks", used.count);
  json.member("bytes", process.rss != 0 ? process.rss : account.total.resident);
  json.member("free_blocks", free.count);
  json.member("free_bytes", free.bytes);
  json.member("swapped", process.swap);
  json.member("snapshot", metadata.collection ? std::string_view(metadata.collection->place)
                                              : file_name_of(file));
  rows.end();
}

}  // namespace

void export_ndjson_sums(const SnapshotStreams& streams, const RecordedStacks* recorded,
                        const ReferenceStreams* references, const std::string& file, Writer& out) {
  const SnapshotMetadata& metadata = *streams.metadata;
  const HeapSummary summary = summarize(streams);
  const RssAccount account = account_rss(metadata, summary);
  // All is read before anything is written: a damaged snapshot is refused without half an export.
  std::optional<StackCensus> census;
  if (recorded != nullptr && metadata.tracker) {
    census = take_stack_census(streams, recorded->stacks);
  }
  std::optional<OwnerSums> owners;
  if (references != nullptr) owners = sum_owners(streams, *references);
  SumRows rows(metadata, out);
  write_account_rows(rows, account);
  write_size_rows(rows, summary);
  write_arena_rows(rows, metadata, summary);
  if (census) write_stack_rows(rows, metadata, *recorded, *census);
  if (owners) write_owner_rows(rows, metadata, *owners);
  write_process_row(rows, metadata, summary, account, file);
}

void export_ndjson_sums(const SnapshotReader& reader, const std::string& file, Writer& out) {
  std::optional<RecordedStacks> recorded;
  if (reader.metadata().tracker) recorded = reader.read_call_stacks();
  std::optional<ReferenceStreams> references;
  if (reader.has_references()) references = references_of(reader);
  export_ndjson_sums(streams_of(reader), recorded ? &*recorded : nullptr,
                     references ? &*references : nullptr, file, out);
}

}  // namespace heapsnap
