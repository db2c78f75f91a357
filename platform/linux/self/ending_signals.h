// SIGINT, SIGTERM and SIGHUP, taken by a thread of their own: heapsnap undoes what it has altered,
// and then dies by the signal, so that a shell sees 130, 143 or 129 (base/alteration.h).
//
// SIGTSTP (Ctrl-Z) stops heapsnap when nothing is altered: a target would stand as long as heapsnap
// does. The shell has its prompt at once, since it waits for the process that watches this one
// (platform/linux/self/watched_work.h).
//
// A signal that was ignored when heapsnap began (nohup, `&` in a script) stays ignored.
#pragma once

#include <functional>

namespace heapsnap {

class EndingSignals {
 public:
  // Before any other thread is made. Where none can be had, signals do what they always do.
  EndingSignals();
  EndingSignals(const EndingSignals&) = delete;
  EndingSignals& operator=(const EndingSignals&) = delete;

  // For who was thrown EndAsked: waits for the end.
  [[noreturn]] void wait_for_end() const;
};

// Does `work` under EndingSignals and gives what it gives. When the end is asked for, it does not
// return: heapsnap dies by the signal.
int do_until_asked_to_end(const std::function<int()>& work);

}  // namespace heapsnap
