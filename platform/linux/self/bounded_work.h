// Work on another process that may neither last too long nor take too much processor time, and that
// takes nobody with it when it fails.
//
//   heapsnap ── fork ─► child ── fork ─► worker      the child watches the worker (watched_work.h)
//       │ waits, with a deadline            │
//       └──────────────◄── pipe ────────────┘ what it has to say
//
// Past a bound the worker is asked to end, undoes what it has altered, and is killed if that takes
// too long. When heapsnap dies, however that comes, the two others die with it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

namespace heapsnap {

struct WorkBounds {
  std::chrono::milliseconds time{0};       // by the clock of the wall; 0: no bound
  std::chrono::seconds processor_time{0};  // of the worker; 0: no bound
};

enum class WorkEnd : uint8_t {
  kDone,
  kOutOfTime,
  kOutOfProcessorTime,
  kAsked,   // heapsnap itself was asked to end: the caller says what it has to say and does so
  kKilled,  // by a signal from elsewhere
};

struct WorkResult {
  WorkEnd end = WorkEnd::kDone;
  std::string said;  // what `work` gave; only of kDone
  int signal = 0;    // of kAsked and kKilled: by which; 0 unknown
};

// `work` must not throw. It runs in another process, so that nothing but what it gives comes back.
// One text of 64 KiB at most. `give_up` turns what an Error of the watching process says into such
// a text. Throws Error{kUnsupported} where no process can be made.
WorkResult do_bounded(const std::function<std::string()>& work,
                      const std::function<std::string(const std::exception&)>& give_up,
                      const WorkBounds& bounds);

// Ends this process the way `signal` ends one that does not handle it.
[[noreturn]] void end_by_signal(int signal);

}  // namespace heapsnap
