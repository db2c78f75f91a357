// A program that heapsnap starts and waits for, as env(1) or time(1) would: heapsnap passes the
// signals sent to it on, and ends the way the program did.
//
// When the program is stopped, by itself or others, heapsnap stops as well, so that a shell takes
// the terminal back; continuing either of the two continues both.
//
// Signals that a terminal sends reach the program anyway, and are not sent twice. When heapsnap
// dies, the program runs on.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "platform/linux/freeze/end_watch.h"

namespace heapsnap {

class StartedCommand {
 public:
  struct Options {
    std::vector<std::string> arguments;  // the first is looked for in PATH
    std::vector<std::pair<std::string, std::string>> environment;  // set besides heapsnap's own
    std::string pid_variable;  // set to the program's PID; empty: none
    // Trace it for the one moment before its memory goes away, when `at_end` of wait() is called.
    // While it is traced no debugger and no other heapsnap can attach to it, and each of its
    // signals goes through heapsnap.
    bool hold_at_end = false;
  };

  // Throws Error{kUsage} if it cannot be executed, Error{kNotPermitted} if it cannot be traced.
  explicit StartedCommand(const Options& options);
  StartedCommand(const StartedCommand&) = delete;
  StartedCommand& operator=(const StartedCommand&) = delete;
  // Restores the signal mask. Leaves the program alone.
  ~StartedCommand();

  int pid() const { return pid_; }

  // Waits for its end; returns what a shell would: its exit code, or 128 + the signal that ended
  // it. `at_end`: called once at most, on this thread, with the program held as end_watch.h
  // describes; the program ends when the session is released. It must not throw.
  int wait(const std::function<void(ProgramEnd&)>& at_end);

 private:
  void start(const Options& options);
  [[noreturn]] void become(const Options& options, int ready, int refusal);
  // Handles all that there is to report about the program; returns true if it has ended.
  bool reap(const std::function<void(ProgramEnd&)>& at_end);
  // By SIGSTOP or the like.
  bool is_stopped() const;
  void stop_with_it();
  void hold(pid_t tid, const std::function<void(ProgramEnd&)>& at_end);

  sigset_t old_mask_{};
  sigset_t waited_{};
  pid_t pid_ = -1;
  std::unique_ptr<EndWatch> watch_;  // until the end
  std::unique_ptr<ProgramEnd> end_;  // from then on
  std::optional<int> status_;
};

}  // namespace heapsnap
