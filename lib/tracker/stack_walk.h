// The call stack of an allocation as a stack id, in nanoseconds: the remembered stack.
//
// A thread keeps the stack of its last allocation. The next allocation unwinds from its innermost
// frame only until it comes to a frame that is also on the remembered stack: same stack pointer,
// same return address, and the same rbp where that matters. From equal frames equal rules lead to
// equal places, so what is left is to see that those places (the remembered words: return
// addresses, and saved rbps where a frame further out needs them) still hold what they held. This
// goes outwards word by word, so that it never reads what an unwinder would not read: whatever
// stack the thread stands on, each word belongs to a live frame.
//
//   last time    main > serve > parse > node > malloc       frames_[0] is main (outermost)
//   this time    main > serve > parse > text > copy > malloc
//                                      └ fresh: unwound by rows
//                └ remembered: three words compared
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
  void forget() { count_ = 0; }

  StackMemory& memory() { return memory_; }
  uint64_t truncated() const { return truncated_; }

  // The id of the stack that `caller` is the innermost frame of.
  __attribute__((always_inline)) inline uint32_t take(const CallerFrame& caller) {
    if (HEAPSNAP_LIKELY(count_ != 0)) {
      const Frame& last = frames_[count_ - 1];
      if (last.sp == caller.sp && last.pc == caller.pc &&
          (!last.needs_rbp || last.rbp == caller.rbp)) {
        const Word* word = words_ + last.word_end;
        const Word* const stop = words_ + window_words_;
        for (;;) {
          if (word == stop) return last_id_;
          --word;
          if (HEAPSNAP_UNLIKELY(*reinterpret_cast<const uint64_t*>(word->address) != word->value))
            break;
        }
      }
    }
    return take_changed(caller);
  }

 private:
  // A word that has to be unchanged for the frames further out to be the same.
  struct Word {
    uint64_t address;
    uint64_t value;
  };
  struct Frame {
    uint64_t sp;    // when the call returns: right above the return address
    uint64_t pc;    // the return address
    uint64_t rbp;   // right only if needs_rbp, and while fresh
    uint64_t hash;  // of this and all frames further out
    UnwindRule rule;
    uint32_t module;
    uint32_t word_end;  // words_[.., word_end) lead outwards from here
    uint32_t node;      // in the trie, or 0; of stacks that reach their end only
    bool needs_rbp;     // this frame's rbp decides where its callers are
  };
  struct Rule {
    uint64_t pc;
    UnwindRule rule;
    uint32_t module;
  };
  enum class Step { kOut, kComplete, kNoInfo, kBad, kSlow };

  static constexpr unsigned kRuleBits = 12;

  uint32_t take_changed(const CallerFrame& caller);
  bool unwind(const CallerFrame& caller, uint32_t& root);
  uint32_t matching_outwards(uint32_t from, uint32_t to) const;
  void reopen(uint32_t from, uint32_t broken, uint64_t rbp);
  Step step(const Frame& from, bool& is_exact, Frame& caller);
  Rule rule_at(uint64_t pc, bool is_exact);
  void push(const Frame& fresh, const Frame* outer);
  void drop_outer_half();
  void unwind_slowly(const CallerFrame& caller);
  uint32_t id_of_stack();

  StackMemory memory_;
  Frame* frames_ = nullptr;  // outermost first
  Word* words_ = nullptr;    // those of the outermost frames first
  Frame* fresh_ = nullptr;   // innermost first
  uint32_t count_ = 0;
  uint32_t window_words_ = 0;  // words below this one are of frames beyond max_frames
  uint32_t last_id_ = 0;
  uint32_t fresh_count_ = 0;
  uint32_t root_ = 0;  // why there is nothing outside of frames_[0]; kRootDepthLimit: there is
  bool forgettable_ = false;  // do not remember this one
  uint32_t limit_ = 0;
  uint32_t collect_ = 0;  // frames to unwind at most, some more than the limit
  uint32_t capacity_ = 0;
  uint64_t outer_hash_ = 0;   // of the frames that were dropped outside of frames_[0]
  uint64_t limit_power_ = 0;  // of the hash's base
  uint64_t sample_bytes_ = 0;
  uint64_t truncated_ = 0;
  void* memory_block_ = nullptr;
  uint64_t memory_size_ = 0;
  Rule rules_[1 << kRuleBits] = {};
};

}  // namespace heapsnap::tracker
