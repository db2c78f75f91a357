#include "report/diff_report.h"
#include "report/json_writer.h"
#include "report/number_text.h"
#include "report/shell_word.h"

namespace heapsnap {

namespace {

constexpr int kUnknownValue = -1;

void write_slope(JsonWriter& json, const DiffRow& row) {
  json.key("slope");
  json.begin_object();
  if (row.slope) {
    json.member("per_second", row.slope->per_second);
    if (row.slope->interval) {
      json.member("low_per_second", row.slope->interval->low);
      json.member("high_per_second", row.slope->interval->high);
    }
  }
  if (row.per_step) json.member("per_step", *row.per_step);
  json.end_object();
}

// Into the object that is open.
void write_growth(JsonWriter& json, const DiffRow& row) {
  json.key("bytes");
  json.begin_array();
  for (const auto& value : row.values) {
    if (value) {
      json.value(value->bytes);
    } else {
      json.value(kUnknownValue);
    }
  }
  json.end_array();
  json.key("blocks");
  json.begin_array();
  for (const auto& value : row.values) {
    if (value) {
      json.value(value->count);
    } else {
      json.value(kUnknownValue);
    }
  }
  json.end_array();
  json.member("growth", row.growth);
  json.member("only_grows", row.only_grows);
  json.member("steps_up", row.steps_up);
  write_slope(json, row);
}

void write_json_diff_row(JsonWriter& json, const DiffSection& section, uint32_t index) {
  const DiffRow& row = section.rows[index];
  json.begin_object();
  json.member("name", row.name);
  if (row.sizes.most != 0) {
    json.member("least_size", row.sizes.least);
    json.member("most_size", row.sizes.most);
  }
  write_growth(json, row);
  if (!row.held.empty()) {
    json.key("holds");
    json.begin_array();
    // No deeper than a few levels.
    for (const uint32_t held : row.held) write_json_diff_row(json, section, held);
    json.end_array();
  }
  json.end_object();
}

const char* lack_text(DiffLack lack) {
  switch (lack) {
    case DiffLack::kNone: break;
    case DiffLack::kReferences: return "no-references";
    case DiffLack::kStacks: return "not-tracked";
    case DiffLack::kResidency: return "residency-unknown";
    case DiffLack::kObjects: return "no-objects";
    case DiffLack::kContexts: return "no-contexts";
  }
  return "";
}

void write_section(JsonWriter& json, const DiffSection& section) {
  json.begin_object();
  json.member("by", to_string(section.by));
  json.member("comparable", section.is_comparable());
  json.member("steps", section.steps);
  json.key("lacks");
  json.begin_array();
  for (const DiffLack lack : section.lacks) json.value(lack_text(lack));
  json.end_array();
  json.key("total");
  json.begin_object();
  write_growth(json, section.total);
  json.end_object();
  json.key("rows");
  json.begin_array();
  for (const uint32_t row : section.ranked) write_json_diff_row(json, section, row);
  json.end_array();
  json.member("unchanged", section.unchanged);
  json.key("left_out");
  json.begin_array();
  for (const Tally& left_out : section.left_out) json.value(left_out.bytes);
  json.end_array();
  json.end_object();
}

void write_snapshot(JsonWriter& json, const DiffSnapshot& snapshot, const std::string& path) {
  const Process& process = snapshot.process;
  json.begin_object();
  json.member("snapshot", path);
  json.member("pid", process.pid);
  json.member("comm", process.comm);
  json.member("exe", process.exe);
  json.member("build_id", process.build_id);
  json.member("host", process.hostname);
  json.member("boot_id", process.boot_id);
  json.member("start_time", process.start_time_ticks);
  json.member("taken_at", time_text(process.taken_at_ns));
  json.member("rss", process.rss);
  json.member("blocks_in_use", snapshot.in_use.count);
  json.member("bytes_in_use", snapshot.in_use.bytes);
  if (snapshot.leaked) {
    json.member("leaked_blocks", snapshot.leaked->count);
    json.member("leaked_bytes", snapshot.leaked->bytes);
  }
  if (snapshot.garbage) {
    json.member("garbage_blocks", snapshot.garbage->count);
    json.member("garbage_bytes", snapshot.garbage->bytes);
  }
  json.member("why_no_references", snapshot.why_no_references);
  json.end_object();
}

}  // namespace

std::string DiffReportInput::snapshot_words() const {
  std::string words;
  for (const std::string& path : paths) {
    if (!words.empty()) words += ' ';
    words += shell_word(path, "SNAPSHOT");
  }
  return words;
}

bool DiffReportInput::is_past_bound() const {
  if (!bound) return false;
  const DiffRow& row = measured();
  if (row.values.empty() || !row.values.front()) return false;
  return bound->is_past(static_cast<double>(row.values.front()->bytes), row.growth);
}

void print_json_diff(Writer& out, const DiffReportInput& input) {
  const SnapshotDiff& diff = input.diff;
  JsonWriter json(out);
  json.begin_object();
  json.member("kind", "diff");
  json.member("version", 1);
  json.key("snapshots");
  json.begin_array();
  for (size_t i = 0; i < diff.snapshots.size(); ++i) {
    write_snapshot(json, diff.snapshots[i], input.paths[i]);
  }
  json.end_array();
  json.member("same_process", diff.is_one_process);
  json.member("same_build", diff.is_one_build);
  json.member("in_time", diff.is_in_time);
  json.key("in_use");
  json.begin_object();
  write_growth(json, diff.in_use);
  json.end_object();
  json.key("resident");
  json.begin_object();
  write_growth(json, diff.resident);
  json.end_object();
  json.key("sections");
  json.begin_array();
  for (const DiffSection& section : diff.sections) write_section(json, section);
  json.end_array();
  json.key("fail_on_growth");
  json.begin_object();
  if (input.bound) {
    json.member("bound", input.bound->text);
    json.member("of", input.measured().name);
    json.member("growth", input.measured().growth);
    json.member("past", input.is_past_bound());
  }
  json.end_object();
  json.end_object();
  out.write("\n");
}

}  // namespace heapsnap
