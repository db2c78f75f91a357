#include "tracker/thread_state.h"

#include <sys/syscall.h>

#include "tracker/control_block.h"
#include "tracker/futex_lock.h"

namespace heapsnap::tracker {

__thread ThreadState* thread_state __attribute__((tls_model("initial-exec"))) = nullptr;

int64_t visitors = 0;

namespace {

// What a thread's pointer leads to while its own state is being made.
constinit ThreadState registering = {};
constinit FutexLock lock;
ThreadState* all_states = nullptr;  // grows only
uint32_t state_count = 0;
uint32_t count_at_next_sweep = 64;
constexpr uint64_t kPendingBytes = kPendingCount * sizeof(PendingCounts);

bool is_alive(const ThreadState& state) {
  if (state.thread_pointer == 0) return false;
  if (state.tid_word != 0) return may_live(state.tid_word, state.tid);
  return !failed(system_call(SYS_tgkill, control.directory->pid, state.tid, 0));
}

void identify(ThreadState& state) {
  const ThreadIdentity identity = own_identity();
  state.tid = identity.tid;
  state.tid_word = identity.tid_word;
}

// The state's thread is gone. Its counts stay, in the tables.
void retire(ThreadState& state) {
  if (state.record != nullptr) {
    for (uint32_t i = 0; i < kPendingCount; ++i) flush_pending(state.pending[i]);
    state.record->pending = 0;
    state.record->pending_count = 0;
    state.record->state = kThreadExited;
    state.record = nullptr;
  }
  state.thread_pointer = 0;
  state.walk.forget();
  store(state.busy, kNoEpoch);
}

// A state without a thread: one whose owner had this thread's control block, else any whose thread
// is gone. One without a record can still be somebody's: of a thread that lived through a stop and
// has not allocated since.
ThreadState* find_retired(uint64_t pointer) {
  ThreadState* free_state = nullptr;
  for (ThreadState* state = all_states; state != nullptr; state = state->next) {
    if (state->thread_pointer == pointer) {
      retire(*state);
      return state;
    }
    if (free_state == nullptr && state->record == nullptr && !is_alive(*state)) free_state = state;
  }
  if (free_state != nullptr || state_count < count_at_next_sweep) return free_state;
  uint32_t alive = 0;
  for (ThreadState* state = all_states; state != nullptr; state = state->next) {
    if (is_alive(*state)) {
      ++alive;
    } else {
      retire(*state);
      free_state = state;
    }
  }
  count_at_next_sweep = alive * 2 > 64 ? alive * 2 : 64;
  return free_state;
}

void add_up(ThreadRecord& sum, ThreadRecord& gone) {
  sum.allocations += gone.allocations;
  sum.frees += gone.frees;
  sum.allocated_bytes += gone.allocated_bytes;
  sum.freed_bytes += gone.freed_bytes;
  sum.without_stack += gone.without_stack;
  sum.truncated += gone.truncated;
  sum.unrecorded += gone.unrecorded;
}

// A fresh record; when the table is full, that of an exited thread, which record 0 takes over.
ThreadRecord* new_record() {
  ChunkedTable& threads = control.directory->threads;
  if (threads.count == 0) {
    if (chunk_for(threads, 0, kRegionThreads, kLimitThreads) == nullptr) return nullptr;
    entry<ThreadRecord>(threads, 0).state = kThreadExited;
    store_release(threads.count, 1);
  }
  const uint64_t index = threads.count;
  if (chunk_for(threads, index, kRegionThreads, kLimitThreads) != nullptr) {
    store_release(threads.count, index + 1);
    return &entry<ThreadRecord>(threads, index);
  }
  for (uint64_t i = 1; i < threads.count; ++i) {
    auto& record = entry<ThreadRecord>(threads, i);
    if (record.state != kThreadExited) continue;
    record.state = kThreadUnused;
    add_up(entry<ThreadRecord>(threads, 0), record);
    record = {};
    return &record;
  }
  return nullptr;
}

ThreadState* new_state() {
  auto* state = static_cast<ThreadState*>(map_working_memory(sizeof(ThreadState)));
  if (state == nullptr) return nullptr;
  state->pending = static_cast<PendingCounts*>(map_table(kPendingBytes, kRegionPending));
  if (state->pending == nullptr) {
    unmap_working_memory(state, sizeof(ThreadState));
    return nullptr;
  }
  state->next = all_states;
  __atomic_store_n(&all_states, state, __ATOMIC_RELEASE);
  ++state_count;
  return state;
}

ThreadState* register_locked(uint64_t sp) {
  const uint64_t pointer = thread_pointer();
  ThreadState* state = find_retired(pointer);
  const bool is_charged = state != nullptr && state->has_pending_charged;
  if (!is_charged && !charge(kPendingBytes)) return nullptr;
  if (state == nullptr) state = new_state();
  if (state == nullptr) {
    uncharge(kPendingBytes);
    return nullptr;
  }
  state->has_pending_charged = true;
  ThreadRecord* record = new_record();
  if (record == nullptr) return nullptr;
  identify(*state);
  state->thread_pointer = pointer;
  state->epoch = kNoEpoch;
  state->busy = kNoEpoch;
  state->random = RandomNumbers((static_cast<uint64_t>(state->tid) << 32) ^ pointer ^
                                control.directory->started_monotonic_ns);
  state->walk.memory().find_own_stack(sp, state->tid == control.directory->pid);
  record->tid = state->tid;
  record->generation = control.directory->process_generation;
  record->pending = reinterpret_cast<uint64_t>(state->pending);
  record->pending_count = kPendingCount;
  store_release(record->state, kThreadSeen);
  state->record = record;
  return state;
}

}  // namespace

void flush_pending(PendingCounts& pending) {
  const uint32_t stack = pending.stack_id;
  if (stack == kNoStack) return;
  const PendingCounts counts = pending;
  store(pending.stack_id, kNoStack);
  pending.allocations = 0;
  pending.frees = 0;
  pending.allocated_bytes = 0;
  pending.freed_bytes = 0;
  auto& record = entry<StackRecord>(control.directory->stacks, stack);
  if (counts.allocations != 0) {
    add(record.allocations, counts.allocations);
    add(record.allocated_bytes, counts.allocated_bytes);
  }
  if (counts.frees != 0) {
    add(record.frees, counts.frees);
    add(record.freed_bytes, counts.freed_bytes);
  }
}

ThreadState* register_thread(uint64_t sp) {
  // A signal handler that allocates meanwhile must find somebody busy.
  store(registering.busy, kBusyRegistering);
  thread_state = &registering;
  ThreadState* state = nullptr;
  if (lock.lock()) {
    state = register_locked(sp);
    lock.unlock();
  }
  thread_state = state;
  if (state == nullptr) add(control.directory->dropped_threads, 1);
  return state;
}

bool refresh_thread(ThreadState& state) {
  const uint64_t epoch = load_acquire(control.epoch);
  // The epoch of a stop must not be taken for one to record in. It is raised after this is cleared.
  if (load(control.recording) == 0) return false;
  const uint64_t sample_bytes = load(control.sample_bytes);  // once: it may be changing
  if (!state.walk.prepare(load(control.max_frames), sample_bytes)) return false;
  const bool is_each_one = sample_bytes == 0 && load(control.takes_interpreter_frames) != 0;
  const uint64_t distance = is_each_one ? kEachOne : sample_bytes;
  if (state.sample_bytes != distance || state.epoch == kNoEpoch) {
    state.sample_bytes = distance;
    state.until_sample = sample_bytes != 0 ? state.random.distance(sample_bytes) : 0;
  }
  state.epoch = epoch;
  return true;
}

void keep_only_this_thread() {
  lock = FutexLock();
  store(visitors, 0);
  const ThreadState* mine = thread_state;
  for (ThreadState* state = all_states; state != nullptr; state = state->next) {
    if (state == mine) {
      identify(*state);
      if (state->record == nullptr) continue;
      state->record->tid = state->tid;
      state->record->generation = control.directory->process_generation;
    } else if (state->record != nullptr) {
      retire(*state);
    }
  }
}

bool threads_are_quiet() {
  if (load(visitors) > 0) return false;
  for (const ThreadState* state = load_acquire(all_states); state != nullptr; state = state->next) {
    if (is_busy(*state) && is_alive(*state)) return false;
  }
  return true;
}

void forget_threads() {
  for (ThreadState* state = all_states; state != nullptr; state = state->next) {
    state->record = nullptr;  // but it stays its thread's
    if (state->has_pending_charged) uncharge(kPendingBytes);
    state->has_pending_charged = false;
    state->epoch = kNoEpoch;
    state->walk.release();
  }
}

}  // namespace heapsnap::tracker
