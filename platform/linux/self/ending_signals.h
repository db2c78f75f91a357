// SIGINT, SIGTERM and SIGHUP, handled by a thread of their own: heapsnap undoes its changes, then
// dies by the signal, so that a shell sees 130, 143 or 129 (base/alteration.h).
//
// SIGTSTP (Ctrl-Z) stops heapsnap only while nothing is altered: otherwise the target would be
// stopped for as long as heapsnap is. The shell shows its prompt at once, since it waits for the
// process that watches this one (platform/linux/self/watched_work.h).
//
// A signal that was ignored when heapsnap started (nohup, `&` in a script) stays ignored.
#pragma once

#include <functional>

namespace heapsnap {

// For a program that has altered its terminal: whether a stop is due, for which it has to put that
// back and release its Alteration; and how often it was continued, after which the terminal has to
// be set up and drawn again.
bool is_stop_asked() noexcept;
unsigned continuations() noexcept;

class EndingSignals {
 public:
  // Create it before any other thread. If no thread can be started, signals keep their usual
  // effect.
  EndingSignals();
  EndingSignals(const EndingSignals&) = delete;
  EndingSignals& operator=(const EndingSignals&) = delete;

  // For code that catches EndAsked: waits for the end.
  [[noreturn]] void wait_for_end() const;
};

// Runs `work` under EndingSignals and returns its result. If heapsnap is asked to end, this does
// not return: heapsnap dies by the signal.
int do_until_asked_to_end(const std::function<int()>& work);

}  // namespace heapsnap
