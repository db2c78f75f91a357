// A program of tests/targets under test: started, waited for until it is ready, ended by closing
// its standard input, and asked what it has seen.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include "base/unique_fd.h"

namespace heapsnap::live {

class LiveTarget {
 public:
  // Starts it and returns when it has said "ready". Throws std::runtime_error when it says
  // something else or ends.
  explicit LiveTarget(std::vector<std::string> command);
  LiveTarget(const LiveTarget&) = delete;
  LiveTarget& operator=(const LiveTarget&) = delete;
  // Kills it when it has not been finished.
  ~LiveTarget();

  pid_t pid() const { return pid_; }

  // Closes its standard input, reads its last line, "name=value ...", and waits for its end.
  // exit_status() tells how it ended.
  std::map<std::string, long> finish();
  // Somebody else has waited for its end.
  void disown() { pid_ = -1; }
  int exit_status() const { return exit_status_; }
  // The next line that it says, without its end.
  std::string read_line();
  void write_line(const std::string& line);

 private:
  pid_t pid_ = -1;
  UniqueFd input_;
  UniqueFd output_;
  std::string pending_;
  int exit_status_ = -1;
};

// What an attach may not change: open files, mappings, threads and the signal mask of each, tracer,
// children, zombies included. As lines of text, so that a difference can be shown.
struct Footprint {
  std::vector<std::string> descriptors;      // "3 -> /dev/null"
  std::vector<std::string> mappings;         // "7f00-7f10 private rw- /lib/..."
  std::vector<std::string> blocked_signals;  // "TID blocks MASK pending MASK"
  std::string signal_handling;               // SigIgn, SigCgt and pending signals
  int tracer = 0;
  std::vector<std::string> children;  // "PID (zombie)"
};
Footprint footprint_of(pid_t pid);
// What is not in both, one line each; empty when they are alike.
std::string difference(const Footprint& before, const Footprint& after);
// The same of a part of it.
std::string difference(const char* what, const std::vector<std::string>& before,
                       const std::vector<std::string>& after);

// Pids of the children of any of its threads; without zombies where only the living count.
std::vector<int> children_of(pid_t pid, bool with_zombies);

// 1 in ordinary runs; with HEAPSNAP_LONG=1 in the environment `when_long`.
int scaled(int ordinary, int when_long);

}  // namespace heapsnap::live
