#include "tracker/recording.h"

#include "tracker/interpreter_frames.h"
#include "tracker/modules.h"
#include "tracker/starting.h"

namespace heapsnap::tracker {

namespace {

StackRecord& stack_record(uint32_t stack) {
  return entry<StackRecord>(control.directory->stacks, stack);
}

bool fill_counted_slot(void* block, uint32_t stack, uint64_t usable, uint64_t size) {
  raise_page_count(block);
  const bool is_filled = fill_slot(block, stack, usable, size);
  if (!is_filled) lower_page_count(block);
  return is_filled;
}

// An event inside an event of the same thread. The thread's own counts and remembered stack may be
// half changed, so this one goes to the shared counts and has no stack.
void record_nested(void* block, bool is_own_call) {
  if (block == nullptr) return;
  // Ours is a call that the C library makes while it serves the hooked one, which will be recorded.
  if (!is_own_call) add(control.directory->nested_events, 1);
  const uint64_t usable = usable_size(block);
  if (!fill_counted_slot(block, kStackNotTaken, usable, 0)) return;
  StackRecord& record = stack_record(kStackNotTaken);
  add(record.allocations, 1);
  add(record.allocated_bytes, usable);
}

// An allocation when the tables may not grow any more. What has no state of its own, or is nested,
// is not counted: that would cost more than to record it.
void count_unrecorded(ThreadState* state, uint64_t frame) {
  if (state == nullptr || is_busy(*state)) return;
  set_busy(*state, frame);
  if (load(control.recording) != 0 && state->record != nullptr) state->record->unrecorded += 1;
  set_idle(*state);
}

// A signal handler left by longjmp never comes back to the hook it interrupted: then that hook's
// frame lies below the present one.
bool is_abandoned(const ThreadState& state, uint64_t frame) {
  const uint64_t busy = load(state.busy) & ~1ULL;
  StackMemory& memory = const_cast<ThreadState&>(state).walk.memory();
  return frame > busy && memory.is_own(frame) && memory.is_own(busy);
}

}  // namespace

__attribute__((noinline)) ThreadState* enter_slowly(void* block, const void* frame) {
  const auto address = reinterpret_cast<uint64_t>(frame);
  if (load(control.recording) == 0) {
    start_if_preloaded();
    if (load(control.recording) == 0) {
      if (ThreadState* left = thread_state; left != nullptr && is_busy(*left)) {
        if (is_abandoned(*left, address)) set_idle(*left);
      }
      return nullptr;
    }
  }
  ThreadState* state = thread_state;
  if (load(control.is_full) != 0) {
    if (block != nullptr) count_unrecorded(state, address);
    return nullptr;
  }
  const Visit visit;
  if (!visit.may_record()) return nullptr;
  if (state != nullptr && is_busy(*state)) {
    if (!is_abandoned(*state, address)) {
      const uint64_t busy = load(state->busy);
      record_nested(block, (busy & 1) != 0 && busy != kBusyRegistering);
      return nullptr;
    }
    state->walk.forget();  // whatever was half done
    set_idle(*state);
  }
  if (state == nullptr || state->record == nullptr) state = register_thread(address);
  if (state == nullptr) {
    if (block != nullptr) add(control.directory->dropped_slots, 1);
    return nullptr;
  }
  if (state->epoch != load(control.epoch)) {
    set_busy(*state, address);
    const bool is_ready = refresh_thread(*state);
    set_idle(*state);
    if (!is_ready) {
      if (block != nullptr) add(control.directory->dropped_slots, 1);
      return nullptr;
    }
  }
  return state;
}

__attribute__((noinline)) void record_sample(ThreadState& state, void* block, uint64_t size,
                                             const void* frame) {
  if (HEAPSNAP_UNLIKELY(!begin_event(state, frame))) return record_again(block, size, frame);
  if (state.sample_bytes != kEachOne) {
    state.until_sample = state.random.distance(state.sample_bytes);
  }
  if (block == nullptr) return set_idle(state);
  uint32_t stack = state.walk.take(caller_of_frame(frame));
  check_stack(stack, frame);
  if (load(control.takes_interpreter_frames) != 0) stack = with_interpreter_frames(stack);
  const uint64_t usable = usable_size(block);
  if (fill_counted_slot(block, stack, usable, size)) {
    const uint64_t charged = usable - size < kSlackUnknown ? size : usable;
    StackRecord& record = stack_record(stack);
    const uint64_t mean = record.sample_bytes;
    const Weight weight = mean != 0 ? weight_of(charged, mean) : Weight{1, charged};
    add(record.allocations, weight.count);
    add(record.allocated_bytes, weight.bytes);
    state.record->allocations += mean != 0 ? weight.count / kSampledCountUnit : 1;
    state.record->allocated_bytes += weight.bytes;
    if (stack == kStackNotTaken) state.record->without_stack += 1;
  }
  set_idle(state);
}

__attribute__((noinline)) void record_again(void* block, uint64_t size, const void* frame) {
  record_allocation(block, size, frame);
}

__attribute__((noinline)) void count_free_slowly(uint32_t slot, uint64_t size) {
  const Visit visit;
  if (!visit.may_record()) return;
  StackRecord& record = stack_record(stack_id_of(slot));
  const uint64_t mean = record.sample_bytes;
  const Weight weight = mean != 0 ? weight_of(size, mean) : Weight{1, size};
  add(record.frees, weight.count);
  add(record.freed_bytes, weight.bytes);
  ThreadState* state = thread_state;
  if (!can_record(state)) return;
  state->record->frees += mean != 0 ? weight.count / kSampledCountUnit : 1;
  state->record->freed_bytes += weight.bytes;
}

__attribute__((noinline)) void count_missed_free(const void* block, uint32_t slot) {
  count_free_slowly(slot, charged_size(block, slot));
  lower_page_count(block);
}

__attribute__((noinline)) void note_loader_free() {
  const Visit visit;
  if (visit.may_record()) check_for_unloaded_modules();
}

}  // namespace heapsnap::tracker
