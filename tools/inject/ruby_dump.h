// A Ruby process writes its own objects, by ObjectSpace.dump_all in a child that it forks.
//
//   threads of ours in it        rb_postponed_job_register_one(0, rb_eval_string, strdup(text))
//   some thread of Ruby's        at its next look for interrupts: Thread.new { fork ... }
//     └─ a thread of Ruby's      forks a child, which forks another and exits; waits for it, and
//          │                     for the other where that has become the process's own child
//          └─ └─ the dump        makes a FIFO, waits until we have opened it, removes it, writes
//   heapsnap                     opens /proc/PID/root/FIFO and reads
//
// For versions whose memory heapsnap does not know, and for what only Ruby's own mark functions
// know. It is the one way by which heapsnap lets code of the program's language run: a thread of
// Ruby's, a fork of the process with the hooks that the program has on it, and a child that ends
// with exit!. No folder but that of the FIFO is written to, nothing is held while the child writes,
// and the text is freed afterwards. If heapsnap is killed, the child ends by itself: within half a
// minute where nobody opened the FIFO, at its next write where nobody reads any more; the text,
// about 1.5 KB, stays then.
//
// A thread of Ruby's that waits in the kernel looks for interrupts when a signal wakes it:
// SIGVTALRM, by which Ruby wakes its threads itself, and SIGCHLD; each only where the process has a
// handler. A job that is not begun within two seconds is handed over again (Ruby 3.4 may forget one
// in the first tenth of a second of a program); then the text stays.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "platform/linux/inject/injected_thread.h"
#include "tools/inject/heap_look.h"

namespace heapsnap {

struct RubyDumpOptions {
  // How long to wait for the dump to begin, and then for each next part of it.
  std::chrono::milliseconds patience{30'000};
};

struct RubyDump {
  std::string version;  // "3.1.2", as the process itself says
  uint64_t lines = 0;   // objects, and roots
  uint64_t bytes = 0;
  uint64_t signals = 0;                // that woke threads
  std::vector<LookPause> look_pauses;  // before the call
  InjectionResult call;  // of several: threads that all of them stopped, and their notes
};

// Lines of JSON, complete ones or parts, in order.
using ReceiveDump = std::function<void(std::span<const char> text)>;

// Throws Error{kUnsupported} if the process has no Ruby that can do it, or if it did not begin or
// end within the patience; what `receive` throws; and as run_on_injected_thread().
RubyDump dump_ruby(int pid, const RubyDumpOptions& options, const ReceiveDump& receive);

}  // namespace heapsnap
