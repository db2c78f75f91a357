// SIGPIPE and SIGXFSZ kept from the process while it writes, so that a broken pipe and a full
// quota are errors of write(2) like any other: whoever writes may hold a stopped target.
#pragma once

#include <signal.h>

namespace heapsnap {

class WriteSignalsHeld {
 public:
  WriteSignalsHeld();
  WriteSignalsHeld(const WriteSignalsHeld&) = delete;
  WriteSignalsHeld& operator=(const WriteSignalsHeld&) = delete;
  ~WriteSignalsHeld();  // keeps errno

 private:
  sigset_t signals_;  // those that were not pending before: ours to take away
  sigset_t before_;
};

}  // namespace heapsnap
