// What a thread has of its own: its record and pending counts (tables), its remembered stack and
// its countdown to the next sample (working memory). One pointer of initial-exec thread-local
// storage leads to it.
//
// A state outlives its thread. That a thread is gone is noticed when another thread needs a state:
// one whose thread pointer is the same (two live threads never share one), or that the kernel
// says is gone. So no destructor runs in the traced program's threads.
#pragma once

#include <cstdint>

#include "tracker/control.h"
#include "tracker/sampling.h"
#include "tracker/stack_walk.h"
#include "tracker/table_space.h"

namespace heapsnap::tracker {

inline constexpr uint32_t kPendingBits = 13;
inline constexpr uint32_t kPendingCount = 1U << kPendingBits;

struct ThreadState {
  // Address of the frame of the hook that is at work in this thread; a hook entered meanwhile (by a
  // signal handler) records without touching what is half changed. Otherwise `epoch`, so that one
  // comparison tells whether the thread can record.
  uint64_t busy;
  uint64_t epoch;         // of Control when its walk was prepared, or kNoEpoch
  uint64_t until_sample;  // a block of so many bytes or more is recorded; 0: every one is
  uint64_t sample_bytes;  // mean distance, or kEachOne
  ThreadRecord* record;
  PendingCounts* pending;
  bool has_pending_charged;  // to the account of memory
  uint64_t thread_pointer;
  uint64_t tid_word;  // where its control block has its tid; 0: not known
  uint32_t tid;
  RandomNumbers random;
  ThreadState* next;
  StackWalk walk;
};

// Busy with something else than an event: above every frame, so never taken for abandoned.
inline constexpr uint64_t kBusyRegistering = kNoEpoch - 1;
inline constexpr uint64_t kBusyForking = kNoEpoch - 2;

// Each block is recorded as a sample is, with a count of 1: with the frames of an interpreter, for
// which the usual way has no place.
inline constexpr uint64_t kEachOne = ~0ULL;

inline bool is_busy(const ThreadState& state) {
  return load(state.busy) < kNoEpoch;
}

inline void set_busy(ThreadState& state, uint64_t value) {
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  store(state.busy, value);
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
}
inline void set_idle(ThreadState& state) {
  set_busy(state, state.epoch);
}

extern HEAPSNAP_OWN __thread ThreadState* thread_state __attribute__((tls_model("initial-exec")));

// An event that touches the tables without a mark in its thread's own state: of a thread that has
// none yet, or whose state is taken up by what this one interrupted.
extern HEAPSNAP_OWN int64_t visitors;

class Visit {
 public:
  Visit() { __atomic_fetch_add(&visitors, 1, __ATOMIC_SEQ_CST); }
  ~Visit() { __atomic_fetch_sub(&visitors, 1, __ATOMIC_SEQ_CST); }
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;
  // False: the tables are being given back, or were.
  bool may_record() const { return load(control.recording) != 0; }
};

// Finds or makes the calling thread's state; null when there is no room (counted). `sp` is on its
// stack.
ThreadState* register_thread(uint64_t sp);

// Does what a new epoch asks for. False: no memory, the thread cannot record.
bool refresh_thread(ThreadState& state);

// In a forked child: only the calling thread is left.
void keep_only_this_thread();

// Is no thread inside an event, and nobody visiting?
bool threads_are_quiet();

// All states become those of exited threads, without memory in tables.
void forget_threads();

// Moves what an entry holds to its stack's record, so that another stack can use it.
void flush_pending(PendingCounts& entry);

inline PendingCounts& pending_of(ThreadState& state, uint32_t stack) {
  PendingCounts& entry = state.pending[stack & (kPendingCount - 1)];
  if (HEAPSNAP_UNLIKELY(entry.stack_id != stack)) {
    flush_pending(entry);
    entry.stack_id = stack;
  }
  return entry;
}

}  // namespace heapsnap::tracker
