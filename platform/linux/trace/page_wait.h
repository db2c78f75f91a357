// A thread that cannot stop, since it waits for a page that a stopped thread has to provide.
//
// Whoever touches a page of a mapping under userfaultfd(2) waits until a handler has filled it. A
// pending signal, or a pending stop, ends that wait at once (handle_userfault() in
// fs/userfaultfd.c). If the page was touched by the program's code, the thread stops there. If a
// system call touched it (read(2) into such a page), the call cannot be left: the fault is tried
// over and over, without a sleep, until the page is there. If the handler is a thread of the same
// process, and stopped, that is never. Like a thread in uninterruptible sleep, such a thread runs
// none of the program's code before it stops.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string_view>

#include "platform/linux/proc/proc_fs.h"

namespace heapsnap {

class PageWait {
 public:
  PageWait(const ProcFs& proc, int pid) : proc_(proc), pid_(pid) {}

  // Whether a thread that has been interrupted is in such a call, to be asked repeatedly: it is if
  // it has kept a processor busy since it was asked for the first time, and its process has a
  // userfaultfd(2).
  bool holds(int tid);

 private:
  bool has_page_handler();

  ProcFs proc_;
  int pid_;
  std::map<int, std::chrono::nanoseconds> ran_before_;
  std::optional<bool> has_page_handler_;
};

// How long a thread has run, by the text of its /proc/TID/schedstat; nullopt where it has none.
std::optional<std::chrono::nanoseconds> run_time_in_schedstat(std::string_view text);

}  // namespace heapsnap
