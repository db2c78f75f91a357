// The call stack of an allocation as a stack id, in nanoseconds: the remembered stack.
//
// A thread keeps the stack of its last allocation: frames, and for each the word of the stack that
// holds its return address (and, in code with frame pointers, the words that hold the saved rbp).
// At the next allocation those words are compared from the outermost inwards up to the first that
// has changed. Then the new stack is unwound from its innermost frame until it comes to a frame
// outside of that change, with the same stack pointer, return address and, where it matters, rbp.
// From equal frames equal rules lead to equal places, and what those hold was just compared, so the
// rest of the stack is the remembered one.
//
//   last time    main > serve > parse > node > malloc       frames_[0] is main (outermost)
//   this time    main > serve > parse > text > copy > malloc
//                                      └ fresh: unwound by rows
//                └ remembered: three words compared
//
// Words are read without further ado only in the thread's own stack, which stays mapped. On any
// other (a fiber's, a signal stack) they are compared from the innermost equal frame outwards, each
// before the next is looked at, so that nothing is read but words of live frames, as an unwinder
// would.
//
// Each frame carries the hash of itself and all frames further out, as a polynomial, so the hash of
// the innermost max_frames is to be had by one subtraction. Stack to id is one look-up of that
// hash.
//
// Nothing is remembered across a signal frame, a step to another stack or a frame that no row
// describes. All remembered frames and rules are dropped when the epoch changes.
#pragma once

#include <cstdint>

#include "tracker/arch_x86_64.h"
#include "tracker/control.h"
#include "tracker/slow_unwind.h"
#include "tracker/stack_memory.h"
#include "tracker/unwind_rows.h"

namespace heapsnap::tracker {

class StackWalk {
 public:
  // Makes room for max_frames and forgets everything. False: no memory.
  bool prepare(uint32_t max_frames, uint64_t sample_bytes);
  void release();
  void forget() { keep(0); }

  StackMemory& memory() { return memory_; }
  uint64_t truncated() const { return truncated_; }

  // The id of the stack that `caller` is the innermost frame of.
  __attribute__((always_inline)) inline uint32_t take(const CallerFrame& caller) {
    uint32_t same = 0;
    if (HEAPSNAP_LIKELY(!has_foreign_ && memory_.is_own(caller.sp))) {
      same = unchanged_frames();
      if (HEAPSNAP_LIKELY(same == count_ && count_ != 0)) {
        const Frame& last = frames_[count_ - 1];
        if (last.sp == caller.sp && last.pc == caller.pc &&
            (!last.needs_rbp || last.rbp == caller.rbp)) {
          return last_id_;
        }
      }
    }
    return take_changed(caller, same);
  }

 private:
  // A word that has to be unchanged for the frames further out to be the same.
  struct Word {
    uint64_t address;
    uint64_t value;
  };
  struct Fresh {
    uint64_t sp;  // when the call returns: right above the return address
    uint64_t pc;  // the return address
    uint64_t rbp;
    UnwindRule rule;
    uint32_t module;
  };
  struct Frame : Fresh {  // rbp is right only if needs_rbp
    uint64_t hash;        // of this and all frames further out
    uint32_t node;        // in the trie, or 0; of stacks that reach their end only
    bool needs_rbp;       // this frame's rbp decides where its callers are
  };
  struct Rule {
    uint64_t pc;
    UnwindRule rule;
    uint32_t module;
  };
  enum class Step { kOut, kComplete, kNoInfo, kBad, kSlow };

  static constexpr uint32_t kRules = 4096;

  // How many frames, counted from the outermost, have all their words as they were. Those outside
  // of the last stack's innermost max_frames are not looked at.
  __attribute__((always_inline)) inline uint32_t unchanged_frames() const {
    const Frame* frame = frames_ + first_;
    const Frame* const end = frames_ + count_;
    while (frame < end && change(*frame) == 0) ++frame;
    auto same = static_cast<uint32_t>(frame - frames_);
    for (uint32_t i = 0; i < extra_count_; ++i) {
      if (HEAPSNAP_UNLIKELY(at(extra_[i]) != extra_[i].value)) {
        return same < extra_frame_[i] ? same : extra_frame_[i];
      }
    }
    return same;
  }
  void add_extra(const Word& word, uint32_t frame) {
    extra_[extra_count_] = word;
    extra_frame_[extra_count_++] = frame;
  }
  static uint32_t rule_index(uint64_t pc) {
    return pc & (kRules - 1);  // as good as random, and the address waits for it
  }
  // 0 when the return address is where it was.
  static uint64_t change(const Frame& frame) {
    return reinterpret_cast<const uint64_t*>(frame.sp)[-1] ^ frame.pc;
  }
  static uint64_t at(const Word& word) { return *reinterpret_cast<const uint64_t*>(word.address); }

  uint32_t take_changed(const CallerFrame& caller, uint32_t same);
  bool unwind(const CallerFrame& caller, uint32_t same, uint32_t& root);
  bool reaches(uint32_t frame, bool is_compared) const;
  Step step(const Fresh& from, bool& is_exact, Fresh& caller);
  const Rule* look_up(uint64_t pc, bool is_exact);
  void keep(uint32_t frames);
  void push_fresh();
  bool push_extra(const Fresh& fresh, const Frame* place);
  void drop_outer_half();
  void unwind_slowly(const CallerFrame& caller);
  uint32_t id_of_stack();

  StackMemory memory_;
  Frame* frames_ = nullptr;          // outermost first
  Word* extra_ = nullptr;            // saved rbps, and CFAs that lie in memory
  uint32_t* extra_frame_ = nullptr;  // the frame that extra_[i] leads to, ascending
  Fresh* fresh_ = nullptr;           // innermost first
  uint32_t count_ = 0;
  uint32_t extra_count_ = 0;
  uint32_t first_ = 0;  // frames further out are beyond max_frames
  uint32_t last_id_ = 0;
  uint32_t fresh_count_ = 0;
  uint32_t root_ = 0;  // why there is nothing outside of frames_[0]; kRootDepthLimit: there is
  bool forgettable_ = false;  // do not remember this one
  bool has_foreign_ = false;  // some frame is not on the thread's own stack
  bool steps_out_ = false;    // and some fresh one
  uint32_t limit_ = 0;
  uint32_t collect_ = 0;  // frames to unwind at most, some more than the limit
  uint32_t capacity_ = 0;
  uint64_t outer_hash_ = 0;   // of the frames that were dropped outside of frames_[0]
  uint64_t limit_power_ = 0;  // of the hash's base
  uint64_t sample_bytes_ = 0;
  uint64_t truncated_ = 0;
  void* memory_block_ = nullptr;
  uint64_t memory_size_ = 0;
  Rule* rules_ = nullptr;  // by return address, kRules of them
  Rule other_rule_ = {};
};

}  // namespace heapsnap::tracker
