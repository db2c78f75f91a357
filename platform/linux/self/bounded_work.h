// Work on another process, bounded in time and in processor time, whose failure does not take
// heapsnap down.
//
//   heapsnap ── fork ─► child ── fork ─► worker      the child watches the worker (watched_work.h)
//       │ waits, with a deadline            │
//       └──────────────◄── pipe ────────────┘ its result
//
// Past a bound the worker is asked to end, undoes its changes, and is killed if that takes too
// long. However heapsnap dies, the other two die with it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

namespace heapsnap {

struct WorkBounds {
  std::chrono::milliseconds time{0};            // wall-clock time; 0: no bound
  std::chrono::milliseconds processor_time{0};  // of the worker; 0: no bound
};

enum class WorkEnd : uint8_t {
  kDone,
  kOutOfTime,
  kOutOfProcessorTime,
  kAsked,   // heapsnap itself was asked to end: the caller reports, then ends
  kKilled,  // by a signal from elsewhere
};

struct WorkResult {
  WorkEnd end = WorkEnd::kDone;
  std::string said;  // what `work` returned; only for kDone
  int signal = 0;    // for kAsked and kKilled: which one; 0: unknown
  // By which heapsnap was asked to end when the work had ended already; 0: it was not.
  int late_signal = 0;
};

// `work` must not throw. It runs in another process, so that only what it returns comes back: one
// text of 64 KiB at most. `give_up` turns an Error of the watching process into such a text. Throws
// Error{kUnsupported} if no process can be created.
WorkResult do_bounded(const std::function<std::string()>& work,
                      const std::function<std::string(const std::exception&)>& give_up,
                      const WorkBounds& bounds);

// Ends this process as `signal` ends one that does not handle it.
[[noreturn]] void end_by_signal(int signal);

}  // namespace heapsnap
