// Updates a block's slot and the counts when the block is allocated and freed. The hooks consist of
// these functions; uncommon cases are out of line (recording.cpp).
//
// Stopping takes the tables away while hooks may be entered. An event that touches them is
// therefore marked first, and checks only then whether recording continues:
//
//   event                                   stop
//   1  busy = frame   (the thread's own)    1  recording = 0, epoch += 1
//   2  epoch still as known?                2  a barrier on all threads: membarrier(2)
//      no: idle again, nothing is touched   3  wait until no thread is busy, nobody visits
//   3  tables are read and written          4  give the tables back
//   4  idle
//
// Either the event sees the new epoch, or stop sees the mark; so the hooks need no fence. Events
// without a state of their own to mark are counted instead (Visit), by an atomic addition.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tracker/thread_state.h"

namespace heapsnap::tracker {

// ptmalloc keeps the size of a chunk in the word before the block; the three low bits are flags, of
// which 2 says that the chunk has a mapping of its own.
inline bool has_own_mapping(const void* block) {
  return (static_cast<const uint64_t*>(block)[-1] & 2) != 0;
}
// As malloc_usable_size(3), of which the program may have another: with a mapping of its own a
// chunk has no part in the next one's header.
__attribute__((always_inline)) inline uint64_t usable_size(const void* block) {
  const uint64_t size = static_cast<const uint64_t*>(block)[-1] & ~7ULL;
  return HEAPSNAP_UNLIKELY(has_own_mapping(block)) ? size - 16 : size - 8;
}

// The bytes that a recorded block is counted with.
inline uint64_t charged_size(const void* block, uint32_t slot) {
  const uint32_t slack = slack_of(slot);
  return usable_size(block) - (slack == kSlackUnknown ? 0 : slack);
}

// The state to record with, or null: not recording, or the event has been dealt with.
ThreadState* enter_slowly(void* block, const void* frame);
// The event again, since recording has changed when it was about to begin.
void record_again(void* block, uint64_t size, const void* frame);
void record_sample(ThreadState& state, void* block, uint64_t size, const void* frame);
// The block had a slot already: the event that should have emptied it was missed.
void count_missed_free(const void* block, uint32_t slot);
// For events that may not touch the thread's own counts, and for blocks with a weight. Nothing when
// recording has stopped.
void count_free_slowly(uint32_t slot, uint64_t size);
void note_loader_free();

#ifdef HEAPSNAP_CHECK_STACKS
// A test build compares each stack with what another unwinder says of the same moment.
void check_stack(uint32_t stack, const void* frame);
#else
inline void check_stack(uint32_t /*stack*/, const void* /*frame*/) {}
#endif

inline bool can_record(const ThreadState* state) {
  return state != nullptr && load(state->busy) == load(control.epoch);
}

// To be called before anything of the tables is touched, or of what the thread has in memory of the
// tracker's. False: recording has changed or stopped meanwhile, and nothing may be touched.
__attribute__((always_inline)) inline bool begin_event(ThreadState& state, const void* frame) {
  set_busy(state, reinterpret_cast<uint64_t>(frame));
  if (HEAPSNAP_LIKELY(load(control.epoch) == state.epoch)) return true;
  set_idle(state);
  return false;
}

// False: no leaf could be had for the block. Where not every block is recorded its page was
// counted.
inline bool fill_slot(void* block, uint32_t stack, uint64_t usable, uint64_t size) {
  uint32_t* slot = fillable_slot(block);
  if (HEAPSNAP_UNLIKELY(slot == nullptr)) {
    slot = make_live_slot(block);
    if (slot == nullptr) {
      add(control.directory->dropped_slots, 1);
      return false;
    }
  }
  if (HEAPSNAP_UNLIKELY(load(*slot) != kEmptySlot)) count_missed_free(block, *slot);
  const uint64_t slack = usable - size;
  store(*slot,
        stack << kSlackBits | static_cast<uint32_t>(slack < kSlackUnknown ? slack : kSlackUnknown));
  return true;
}

// The rule, when every allocation is recorded.
__attribute__((always_inline)) inline void record_fully(ThreadState& state, void* block,
                                                        uint64_t size, const void* frame) {
  if (HEAPSNAP_UNLIKELY(!begin_event(state, frame))) return record_again(block, size, frame);
  const uint32_t stack = state.walk.take(caller_of_frame(frame));
  check_stack(stack, frame);
  const uint64_t usable = usable_size(block);
  if (HEAPSNAP_LIKELY(fill_slot(block, stack, usable, size))) {
    const uint64_t charged = usable - size < kSlackUnknown ? size : usable;
    PendingCounts& counts = pending_of(state, stack);
    counts.allocated_bytes += charged;
    if (HEAPSNAP_UNLIKELY(static_cast<int32_t>(++counts.allocations) < 0)) flush_pending(counts);
    state.record->allocations += 1;
    state.record->allocated_bytes += charged;
    if (HEAPSNAP_UNLIKELY(stack == kStackNotTaken)) state.record->without_stack += 1;
  }
  set_idle(state);
}

// `frame` is the hook's own frame address.
__attribute__((always_inline)) inline void record_allocation(void* block, uint64_t size,
                                                             const void* frame) {
  ThreadState* state = thread_state;
  if (HEAPSNAP_UNLIKELY(!can_record(state))) {
    state = enter_slowly(block, frame);
    if (state == nullptr) return;
  }
  if (size < state->until_sample) {
    state->until_sample -= size;
  } else if (state->sample_bytes != 0) {
    record_sample(*state, block, size, frame);
  } else if (HEAPSNAP_LIKELY(block != nullptr)) {
    record_fully(*state, block, size, frame);
  }
}

__attribute__((always_inline)) inline bool may_pass_over(uint64_t size) {
  ThreadState* state = thread_state;
  return can_record(state) && size < state->until_sample;
}
__attribute__((always_inline)) inline void pass_over(uint64_t size) {
  thread_state->until_sample -= size;
}
// Charges a block that is about to be allocated to the countdown. False: it has to be recorded, or
// there is something else to do.
__attribute__((always_inline)) inline bool is_passed_over(uint64_t size) {
  if (!may_pass_over(size)) return false;
  pass_over(size);
  return true;
}

// A block of this slot content and size is gone; its slot is empty already.
inline void count_free(uint32_t slot, uint64_t size, const void* frame) {
  ThreadState* state = thread_state;
  if (HEAPSNAP_UNLIKELY(!can_record(state) || load(control.ever_sampled) != 0) ||
      HEAPSNAP_UNLIKELY(!begin_event(*state, frame))) {
    count_free_slowly(slot, size);
    return;
  }
  PendingCounts& counts = pending_of(*state, stack_id_of(slot));
  counts.freed_bytes += size;
  if (HEAPSNAP_UNLIKELY(static_cast<int32_t>(++counts.frees) < 0)) flush_pending(counts);
  state->record->frees += 1;
  state->record->freed_bytes += size;
  set_idle(*state);
}

// The slot of a block that is recorded, or null. Where a page has a count there is a root.
__attribute__((always_inline)) inline uint32_t* recorded_slot(const void* block) {
  if (!may_be_recorded(block)) return nullptr;
  uint32_t* slot = slot_below(control.live_root, block);
  return slot != nullptr && load(*slot) != kEmptySlot ? slot : nullptr;
}

// To be called before the block is given back: afterwards another thread may have it.
__attribute__((always_inline)) inline void record_free(void* block, uint32_t* slot,
                                                       const void* frame) {
  const uint32_t was = load(*slot);
  if (was == kEmptySlot) return;  // the tables have just been given back
  const uint64_t size = charged_size(block, was);
  store(*slot, kEmptySlot);
  lower_page_count(block);
  count_free(was, size, frame);
}

// The rule, without a call. False: something is unusual, and nothing is done.
__attribute__((always_inline)) inline bool record_free_at_once(void* block, uint32_t* slot,
                                                               const void* frame) {
  ThreadState* state = thread_state;
  if (HEAPSNAP_UNLIKELY(!can_record(state) || load(control.ever_sampled) != 0)) return false;
  if (HEAPSNAP_UNLIKELY(has_own_mapping(block))) return false;
  if (HEAPSNAP_UNLIKELY(!begin_event(*state, frame))) return false;
  const uint32_t was = load(*slot);
  const uint64_t size = charged_size(block, was);
  PendingCounts& counts = state->pending[stack_id_of(was) & (kPendingCount - 1)];
  const bool is_usual = counts.stack_id == stack_id_of(was) && counts.frees < INT32_MAX;
  if (HEAPSNAP_LIKELY(is_usual)) {
    store(*slot, kEmptySlot);
    counts.freed_bytes += size;
    counts.frees += 1;
    state->record->frees += 1;
    state->record->freed_bytes += size;
  }
  set_idle(*state);
  return is_usual;
}

// ld.so frees memory of its own when a module is unloaded, for one.
__attribute__((always_inline)) inline bool is_from_loader(uint64_t caller) {
  return caller - control.loader_begin < control.loader_size;
}

}  // namespace heapsnap::tracker
