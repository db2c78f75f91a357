// What `heapsnap collect` reports about a target: one line, for people or as JSON.
//
//   web: collected: 4242 nginx, 23.4 MiB resident, paused 1.2 ms, 12.3 KiB in /var/lib/...
#pragma once

#include <cstdint>
#include <exception>
#include <string>

#include "report/writer.h"

namespace heapsnap {

enum class CollectResult : uint8_t {
  kCollected,
  kMatched,  // --check: what would be collected
  kNotDue,
  kSkipped,  // something else prevented it
  kAbsent,   // no such process, or it ended meanwhile
  kFailed,
};
const char* to_string(CollectResult result);  // "collected", "matched", "not due", ...

struct CollectLine {
  std::string target;  // empty: of the whole run
  CollectResult result = CollectResult::kCollected;
  int exit_code = 0;
  int pid = 0;  // 0: no process
  std::string comm;
  size_t matches = 0;
  bool is_oldest_of_several = false;
  uint64_t rss = 0;
  std::string why;  // why it is due, or not, or was skipped, or failed
  std::string remedy;
  std::string snapshot;  // path
  uint64_t snapshot_bytes = 0;
  uint64_t pause_ns = 0;
  std::string rules;  // --check: what makes it due
  std::string note;   // a sentence on what was found amiss besides
};

class CollectLog {
 public:
  // Lines that go to the journal begin with their priority, as sd-daemon(3) says.
  CollectLog(bool as_json, bool to_journal);

  // Writes the line at once. Where it cannot be written, the targets still to come are more
  // important: see check().
  void add(const CollectLine& line);
  // Throws Error{kOutput} if a line could not be written.
  void check() const;
  // The highest exit code of all lines.
  int worst() const { return worst_; }

 private:
  void write_text(const CollectLine& line);
  void write_json(const CollectLine& line);

  Writer out_;
  bool as_json_;
  bool to_journal_;
  int worst_ = 0;
  std::exception_ptr failure_;  // of the first line that could not be written
};

// Whether standard output is the journal (JOURNAL_STREAM of systemd.exec(5)).
bool is_journal_output();

}  // namespace heapsnap
