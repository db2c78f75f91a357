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
// Where all frames lie as they did and only return addresses differ (the same functions, called
// from elsewhere), the new addresses go into the remembered frames, from the outermost inwards, and
// nothing is unwound: a frame whose row is that of the old one has its callers where it had.
//
// Words are read directly only in the thread's own stack, which stays mapped. On any other (a
// fiber's, a signal stack) they are compared from the innermost equal frame outwards, each before
// the next is looked at, so that nothing is read but words of live frames, as an unwinder would.
//
// Each frame carries the hash of itself and all frames further out, as a polynomial, so the hash of
// the innermost max_frames takes one subtraction. Stack to id is one look-up of that hash.
//
// Nothing is remembered across a signal frame, a step to another stack or a frame that no row
// describes. All remembered frames and rules are dropped when the epoch changes.
#pragma once

#include <cstdint>

#include "tracker/arch_x86_64.h"
#include "tracker/control.h"
#include "tracker/rule_table.h"
#include "tracker/slow_unwind.h"
#include "tracker/stack_memory.h"
#include "tracker/unwind_rows.h"

namespace heapsnap::tracker {

class StackWalk {
 public:
  // Makes room for max_frames and forgets everything. False: no memory.
  bool prepare(uint32_t max_frames, uint64_t sample_bytes);
  void release();
  void forget();

  StackMemory& memory() { return memory_; }
  uint64_t truncated() const { return truncated_; }

  // The id of the stack that `caller` is the innermost frame of.
  __attribute__((always_inline)) inline uint32_t take(const CallerFrame& caller) {
    uint32_t same = 0;
    if (HEAPSNAP_LIKELY(!has_foreign_ && memory_.is_own(caller.sp))) {
      same = unchanged_frames();
      const Frame& last = (frames_ + count_)[-1];  // of no frames: at address 0
      if (last.sp == caller.sp) {
        if (HEAPSNAP_LIKELY(same == count_ && is_innermost(caller))) return last_id_;
        if (same != 0) return take_renewed(caller, same);
      }
    }
    return take_unwound(caller, same);
  }

 private:
  // A frame of the present stack. Both words are those when the call returns, so sp is right above
  // the return address.
  struct alignas(32) Fresh {
    uint64_t sp;
    uint64_t rbp;
    const FrameRule* rule;
  };
  // A remembered frame. What has to be as it was for the frames further out to be the same:
  // the word below sp is pc, and, if the next frame saved rbp right below (as code with frame
  // pointers does), the word below that is rbp.
  struct alignas(16) Frame {
    uint64_t rbp;  // right only if needs_rbp
    uint64_t pc;   // the return address
    uint64_t sp;
    UnwindRule shape;    // of pc
    uint16_t unsaved;    // 0: rbp is to be compared; kLowerWord: it is not
    uint16_t needs_rbp;  // this frame's rbp decides where its callers are
  };
  // The rest of a remembered frame.
  struct Path {
    uint64_t hash;  // of this and all frames further out
    uint32_t module;
    uint32_t node;  // in the trie, or 0; of stacks that reach their end only
  };
  // Any other word that has to be as it was.
  struct Word {
    uint64_t address;
    uint64_t value;
  };
  enum class Step { kOut, kComplete, kNoInfo, kBad, kSlow };

  static constexpr uint32_t kNoPair = ~0U;

  // How many frames, counted from the outermost, have all their words as they were. Those outside
  // of the last stack's innermost max_frames are not looked at. frames_[count_] is one that has
  // always changed, so that nobody has to look for the end.
  __attribute__((always_inline)) inline uint32_t unchanged_frames() const {
    const Frame* frame = frames_ + first_;
    if (HEAPSNAP_LIKELY(first_pair_ == kNoPair)) {
      for (;; frame += 4) {
        if (has_other_pc(frame[0])) break;
        if (has_other_pc(frame[1])) {
          frame += 1;
          break;
        }
        if (has_other_pc(frame[2])) {
          frame += 2;
          break;
        }
        if (has_other_pc(frame[3])) {
          frame += 3;
          break;
        }
      }
    } else {
      const Frame* const pairs = frames_ + first_pair_;
      while (frame < pairs && !has_other_pc(*frame)) ++frame;
      if (frame >= pairs) {
        const Frame* const end = frames_ + pairs_end_;
        while (end - frame >= 6 &&
               are_equal_pairs(frame[0].sp, &frame[0].rbp, frame[1].sp, &frame[1].rbp)) {
          frame += 2;
        }
        for (;; frame += 2) {
          if (has_other_pair(frame[0])) break;
          if (has_other_pair(frame[1])) {
            frame += 1;
            break;
          }
        }
      }
    }
    auto same = static_cast<uint32_t>(frame - frames_);
    for (uint32_t i = 0; i < extra_count_; ++i) {
      if (HEAPSNAP_UNLIKELY(at(extra_[i]) != extra_[i].value)) {
        return same < extra_frame_[i] ? same : extra_frame_[i];
      }
    }
    return same;
  }
  // The innermost frame lies where the caller does; is it the caller?
  bool is_innermost(const CallerFrame& caller) const {
    const Frame& last = (frames_ + count_)[-1];
    return last.pc == caller.pc && (last.needs_rbp == 0 || last.rbp == caller.rbp);
  }
  static bool has_other_pc(const Frame& frame) {
    return reinterpret_cast<const uint64_t*>(frame.sp)[-1] != frame.pc;
  }
  static bool has_other_pair(const Frame& frame) {
    return (equal_bytes(frame.sp, &frame.rbp) | frame.unsaved) != kBothWords;
  }
  // The same, reading only what a live frame is sure to have.
  static bool has_changed(const Frame& frame) {
    return has_other_pc(frame) ||
           (frame.unsaved == 0 && reinterpret_cast<const uint64_t*>(frame.sp)[-2] != frame.rbp);
  }
  void add_extra(const Word& word, uint32_t frame) {
    extra_[extra_count_] = word;
    extra_frame_[extra_count_++] = frame;
  }
  static uint64_t at(const Word& word) { return *reinterpret_cast<const uint64_t*>(word.address); }

  uint32_t take_renewed(const CallerFrame& caller, uint32_t same);
  uint32_t renew(uint32_t same);
  bool unwind(const CallerFrame& caller, uint32_t same, bool is_compared, uint32_t& root);
  bool reaches(uint32_t frame, bool is_compared) const;
  Step step(const Fresh& from, bool& is_exact, Fresh& caller, uint64_t& caller_pc);
  const FrameRule* look_up(uint64_t pc, bool is_exact, const Fresh* fresh);
  void learn();
  void keep(uint32_t frames);
  void set_end();
  bool push_rbp(const Fresh& fresh, Frame* place);
  void drop_outer_half();
  void unwind_slowly(const CallerFrame& caller);
  void push_fresh();
  uint32_t take_remembered();
  uint32_t take_unwound(const CallerFrame& caller, uint32_t same);
  uint32_t insert(uint64_t hash, uint32_t root, bool is_cut);

  StackMemory memory_;
  RuleTable rules_;                  // the spare ones are of the fresh frames, innermost first
  Frame* frames_ = nullptr;          // outermost first; frames_[-1] is at address 0
  Path* paths_ = nullptr;            // of each frame
  Word* extra_ = nullptr;            // saved rbps, and CFAs that lie in memory
  uint32_t* extra_frame_ = nullptr;  // the frame that extra_[i] leads to, ascending
  Fresh* fresh_ = nullptr;           // innermost first
  uint32_t count_ = 0;
  uint32_t extra_count_ = 0;
  uint32_t first_ = 0;             // frames further out are beyond max_frames
  uint32_t first_pair_ = kNoPair;  // no frame further out has its rbp compared
  uint32_t pairs_end_ = 0;         // and all from there to here have
  uint32_t last_id_ = 0;
  uint32_t fresh_count_ = 0;
  uint32_t root_ = 0;  // why there is nothing outside of frames_[0]; kRootDepthLimit: there is
  bool forgettable_ = false;  // do not remember this one
  bool has_foreign_ = false;  // some frame is not on the thread's own stack
  bool steps_out_ = false;    // and some fresh one
  bool has_learned_ = false;  // some fresh frame's rule was looked up
  uint32_t limit_ = 0;
  uint32_t collect_ = 0;  // frames to unwind at most, some more than the limit
  uint32_t capacity_ = 0;
  uint64_t outer_hash_ = 0;   // of the frames that were dropped outside of frames_[0]
  uint64_t limit_power_ = 0;  // of the hash's base
  uint64_t sample_bytes_ = 0;
  uint64_t truncated_ = 0;
  void* memory_block_ = nullptr;
  uint64_t memory_size_ = 0;
};

}  // namespace heapsnap::tracker
