#include "base/alteration.h"

#include <atomic>
#include <condition_variable>
#include <mutex>

namespace heapsnap {

namespace {

struct State {
  std::mutex mutex;
  std::condition_variable changed;
  int alterations = 0;     // guarded by mutex
  bool is_closed = false;  // the same: the end has come
  std::atomic<bool> asked{false};
};

// Never destroyed: a thread may wait here when the process ends.
State& state() {
  static State& only = *new State;
  return only;
}

std::atomic<int> repairs{0};

}  // namespace

Alteration::Alteration() {
  check_end();
  std::unique_lock lock(state().mutex);
  state().changed.wait(lock, [] { return !state().is_closed; });
  ++state().alterations;
}

Alteration::~Alteration() {
  const std::lock_guard lock(state().mutex);
  --state().alterations;
  state().changed.notify_all();
}

Repair::Repair() noexcept {
  ++repairs;
}

Repair::~Repair() {
  --repairs;
}

bool is_end_asked() noexcept {
  return state().asked.load(std::memory_order_relaxed) && repairs == 0;
}

void check_end() {
  if (is_end_asked()) throw EndAsked();
}

void ask_to_end() noexcept {
  state().asked = true;
}

bool await_repair(std::chrono::milliseconds patience) {
  std::unique_lock lock(state().mutex);
  state().is_closed =
      state().changed.wait_for(lock, patience, [] { return state().alterations == 0; });
  return state().is_closed;
}

void permit_alterations() noexcept {
  const std::lock_guard lock(state().mutex);
  state().is_closed = false;
  state().changed.notify_all();
}

}  // namespace heapsnap
