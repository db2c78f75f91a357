#include "tools/collect/collect_line.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/clock.h"
#include "report/json_writer.h"
#include "report/number_text.h"
#include "report/terminal_text.h"

namespace heapsnap {

namespace {

// sd-daemon(3): error, warning, informational.
const char* priority_of(const CollectLine& line) {
  if (line.result == CollectResult::kFailed) return "<3>";
  return line.exit_code != 0 ? "<4>" : "<6>";
}

std::string process_text(const CollectLine& line) {
  std::string text = fmt::format("{} {}", line.pid, printable(line.comm));
  if (line.is_oldest_of_several) text += fmt::format(" (the oldest of {})", line.matches);
  return text;
}

}  // namespace

const char* to_string(CollectResult result) {
  switch (result) {
    case CollectResult::kCollected: return "collected";
    case CollectResult::kMatched: return "matched";
    case CollectResult::kNotDue: return "not due";
    case CollectResult::kSkipped: return "skipped";
    case CollectResult::kAbsent: return "absent";
    case CollectResult::kFailed: return "failed";
  }
  return "failed";
}

bool is_journal_output() {
  const char* const stream = std::getenv("JOURNAL_STREAM");
  struct stat output {};
  if (stream == nullptr || ::fstat(STDOUT_FILENO, &output) != 0) return false;
  return fmt::format("{}:{}", output.st_dev, output.st_ino) == stream;
}

CollectLog::CollectLog(bool as_json, bool to_journal)
    : out_(STDOUT_FILENO, "standard output"), as_json_(as_json), to_journal_(to_journal) {}

void CollectLog::add(const CollectLine& line) {
  worst_ = std::max(worst_, line.exit_code);
  try {
    if (to_journal_) out_.write(priority_of(line));
    if (as_json_) {
      write_json(line);
    } else {
      write_text(line);
    }
    out_.flush();
  } catch (const Error&) {
    if (!failure_) failure_ = std::current_exception();
  }
}

void CollectLog::check() const {
  if (failure_) std::rethrow_exception(failure_);
}

void CollectLog::write_text(const CollectLine& line) {
  std::string text = fmt::format("{}: {}: ", line.target.empty() ? "collect" : line.target,
                                 to_string(line.result));
  if (line.pid != 0) text += process_text(line) + ", ";
  if (line.rss != 0) text += size_text(line.rss) + " resident, ";
  if (line.result == CollectResult::kCollected) {
    text += fmt::format("paused {}, {} in {}", duration_text(line.pause_ns),
                        size_text(line.snapshot_bytes), printable(line.snapshot));
  } else {
    text += printable(line.why);
  }
  if (!line.rules.empty()) text += " (" + line.rules + ")";
  if (!line.note.empty()) text += "; " + printable(line.note);
  if (!line.remedy.empty()) text += "; do: " + printable(line.remedy);
  out_.write(text + "\n");
}

void CollectLog::write_json(const CollectLine& line) {
  JsonWriter json(out_);
  json.begin_object();
  json.member("kind", "collect");
  json.member("version", 1);
  json.member("time", time_text(realtime_ns(), 3));
  json.member("target", line.target);
  json.member("result", to_string(line.result));
  json.member("exit_code", line.exit_code);
  json.member("pid", line.pid);
  json.member("comm", line.comm);
  json.member("matches", line.matches);
  json.member("rss", line.rss);
  json.member("why", line.why);
  json.member("remedy", line.remedy);
  json.member("note", line.note);
  json.member("snapshot", line.snapshot);
  json.member("snapshot_bytes", line.snapshot_bytes);
  json.member("pause_ns", line.pause_ns);
  json.end_object();
  out_.write("\n");
}

}  // namespace heapsnap
