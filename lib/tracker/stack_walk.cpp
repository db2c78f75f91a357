#include "tracker/stack_walk.h"

#include "tracker/modules.h"
#include "tracker/stack_table.h"
#include "tracker/table_space.h"

namespace heapsnap::tracker {

namespace {

// An odd number without structure: the base of the polynomial.
constexpr uint64_t kBase = 0x8bb84b93962eacc9;
constexpr uint32_t kSlackFrames = 64;

uint64_t hash_of_frame(uint64_t pc, uint32_t module) {
  const uint64_t hash = (pc ^ (static_cast<uint64_t>(module) << 47)) * 0x9e3779b97f4a7c15;
  return hash ^ (hash >> 32);
}

uint64_t finish(uint64_t hash, uint32_t root, uint32_t depth, uint64_t sample_bytes) {
  hash ^= (static_cast<uint64_t>(root) << 32 | depth) * 0xd6e8feb86659fd93;
  hash ^= sample_bytes * 0xa0761d6478bd642f;
  hash = (hash ^ (hash >> 32)) * 0xd6e8feb86659fd93;
  return hash ^ (hash >> 29);
}

}  // namespace

bool StackWalk::prepare(uint32_t max_frames, uint64_t sample_bytes) {
  count_ = 0;
  if (limit_ != 0) __builtin_memset(rules_, 0, sizeof rules_);  // else never used
  sample_bytes_ = sample_bytes;
  if (max_frames == limit_) return true;
  release();
  const uint32_t collect = max_frames + (max_frames < kSlackFrames ? kSlackFrames : max_frames);
  const uint32_t capacity = collect + kSlackFrames;
  const uint64_t frames = sizeof(Frame) * (capacity + 1ULL);
  const uint64_t words = sizeof(Word) * 3ULL * (capacity + 1ULL);
  const uint64_t fresh = sizeof(Frame) * (collect + capacity + 2ULL);
  auto* block = static_cast<char*>(map_working_memory(frames + words + fresh));
  if (block == nullptr) return false;
  memory_block_ = block;
  memory_size_ = frames + words + fresh;
  frames_ = reinterpret_cast<Frame*>(block);
  words_ = reinterpret_cast<Word*>(block + frames);
  fresh_ = reinterpret_cast<Frame*>(block + frames + words);
  limit_ = max_frames;
  collect_ = collect;
  capacity_ = capacity;
  limit_power_ = 1;
  for (uint32_t i = 0; i < max_frames; ++i) limit_power_ *= kBase;
  return true;
}

void StackWalk::release() {
  if (memory_block_ != nullptr) unmap_working_memory(memory_block_, memory_size_);
  memory_block_ = nullptr;
  limit_ = 0;
  count_ = 0;
}

StackWalk::Rule StackWalk::rule_at(uint64_t pc, bool is_exact) {
  if (HEAPSNAP_UNLIKELY(is_exact)) {  // an interrupted instruction: the table of rules is of calls
    const RuleAt found = look_up_rule(pc);
    return {pc, found.rule, found.module};
  }
  Rule& known = rules_[((pc * 0x9e3779b97f4a7c15) >> (64 - kRuleBits))];
  if (HEAPSNAP_LIKELY(known.pc == pc)) return known;
  const RuleAt found = look_up_rule(pc - 1);
  const Rule rule{pc, found.rule, found.module};
  if (found.lasting) known = rule;
  return rule;
}

// One frame outwards. `is_exact` is of `from` on the way in and of `caller` on the way out.
StackWalk::Step StackWalk::step(const Frame& from, bool& is_exact, Frame& caller) {
  const UnwindRule rule = from.rule;
  uint64_t cfa = 0;
  is_exact = false;
  switch (rule.kind()) {
    case RuleKind::kFromRsp: cfa = from.sp + static_cast<uint64_t>(rule.cfa_offset()); break;
    case RuleKind::kFromRbp: cfa = from.rbp + static_cast<uint64_t>(rule.cfa_offset()); break;
    case RuleKind::kThroughRbp: {
      const uint64_t place = from.rbp + static_cast<uint64_t>(rule.cfa_offset());
      if (!memory_.is_readable(place) || !memory_.is_readable(from.rbp)) return Step::kBad;
      cfa = *reinterpret_cast<const uint64_t*>(place);
      caller.rbp = *reinterpret_cast<const uint64_t*>(from.rbp);
      break;
    }
    case RuleKind::kPlt: {
      const bool is_pushed = (from.pc & 15) >= static_cast<uint64_t>(rule.cfa_offset());
      cfa = from.sp + (is_pushed ? 16 : 8);
      break;
    }
    case RuleKind::kSignal:
      if (!memory_.is_readable(from.sp + kSignalFrameRbp) ||
          !memory_.is_readable(from.sp + kSignalFrameRip)) {
        return Step::kBad;
      }
      caller.pc = *reinterpret_cast<const uint64_t*>(from.sp + kSignalFrameRip);
      caller.sp = *reinterpret_cast<const uint64_t*>(from.sp + kSignalFrameRsp);
      caller.rbp = *reinterpret_cast<const uint64_t*>(from.sp + kSignalFrameRbp);
      is_exact = true;
      forgettable_ = true;
      return caller.pc == 0 ? Step::kComplete : Step::kOut;
    case RuleKind::kEnd: return Step::kComplete;
    case RuleKind::kNoInfo: return Step::kNoInfo;
    case RuleKind::kSpecial: return Step::kSlow;
  }
  if (HEAPSNAP_UNLIKELY(!memory_.is_readable(cfa - 8))) return Step::kBad;
  caller.pc = *reinterpret_cast<const uint64_t*>(cfa - 8);
  caller.sp = cfa;
  if (HEAPSNAP_UNLIKELY(cfa <= from.sp)) forgettable_ = true;  // onto another stack
  if (rule.kind() != RuleKind::kThroughRbp) {
    caller.rbp = from.rbp;
    if (rule.rbp_distance() != 0) {
      const uint64_t place = cfa - 8 * rule.rbp_distance();
      if (HEAPSNAP_UNLIKELY(!memory_.is_readable(place))) return Step::kBad;
      caller.rbp = *reinterpret_cast<const uint64_t*>(place);
    }
  }
  return HEAPSNAP_UNLIKELY(caller.pc == 0) ? Step::kComplete : Step::kOut;
}

// How far outwards from frame `from` the words hold what they held: the outermost frame, not beyond
// `to`, that is as it was.
uint32_t StackWalk::matching_outwards(uint32_t from, uint32_t to) const {
  uint32_t word = frames_[from].word_end;
  const uint32_t stop = frames_[to].word_end;
  while (word != stop) {
    --word;
    if (*reinterpret_cast<const uint64_t*>(words_[word].address) != words_[word].value) {
      // Belongs to the step outwards from the innermost frame whose words begin at or before it.
      uint32_t frame = from;
      while (frame > to && frames_[frame - 1].word_end > word) --frame;
      return frame;
    }
  }
  return to;
}

// Frames [broken, from] are as they were, but not what is outside of them: they become fresh, and
// the rest, but for frames further out that may match again, is forgotten.
void StackWalk::reopen(uint32_t from, uint32_t broken, uint64_t rbp) {
  for (uint32_t i = from + 1; i-- > broken;) {
    Frame& frame = fresh_[fresh_count_++];
    frame = frames_[i];
    frame.rbp = rbp;
    if (i > broken) {
      const UnwindRule rule = frame.rule;
      if (rule.kind() == RuleKind::kThroughRbp) {
        rbp = *reinterpret_cast<const uint64_t*>(rbp);
      } else if (rule.rbp_distance() != 0) {
        rbp = *reinterpret_cast<const uint64_t*>(frames_[i - 1].sp - 8 * rule.rbp_distance());
      }
    }
  }
  count_ = broken;
}

// Fills fresh_ with what is not remembered, and leaves of frames_ what is outside of that. False:
// some frame is described by no row.
bool StackWalk::unwind(const CallerFrame& caller, uint32_t& root) {
  Frame now{};
  now.pc = caller.pc;
  now.sp = caller.sp;
  now.rbp = caller.rbp;
  bool is_exact = false;
  fresh_count_ = 0;
  root = root_;
  for (;;) {
    while (count_ != 0 && frames_[count_ - 1].sp < now.sp) --count_;
    bool is_fresh = true;
    if (count_ != 0 && !is_exact) {
      const uint32_t at = count_ - 1;
      const Frame& known = frames_[at];
      if (known.sp == now.sp && known.pc == now.pc && (!known.needs_rbp || known.rbp == now.rbp)) {
        const uint32_t total = count_ + fresh_count_;
        if (root_ == kRootDepthLimit && total < limit_) {
          count_ = 0;  // more frames are wanted than were kept
        } else {
          const uint32_t from = total > limit_ ? (total - limit_ < at ? total - limit_ : at) : 0;
          const uint32_t same = matching_outwards(at, from);
          if (same == from) return true;
          reopen(at, same, now.rbp);
          is_fresh = false;
        }
      }
    }
    if (is_fresh) {
      const Rule rule = rule_at(now.pc, is_exact);
      now.rule = rule.rule;
      now.module = rule.module;
      fresh_[fresh_count_++] = now;
    }
    if (fresh_count_ >= collect_) {
      root = kRootDepthLimit;
      count_ = 0;
      return true;
    }
    Frame& inner = fresh_[fresh_count_ - 1];
    switch (step(inner, is_exact, now)) {
      case Step::kOut: continue;
      case Step::kComplete: root = kRootComplete; break;
      case Step::kNoInfo: root = kRootNoUnwindInfo; break;
      case Step::kBad: root = kRootBadFrame; break;
      case Step::kSlow: return false;
    }
    count_ = 0;
    return true;
  }
}

void StackWalk::drop_outer_half() {
  const uint32_t dropped = count_ / 2;
  const uint32_t words = frames_[dropped].word_end;
  const uint32_t words_left = frames_[count_ - 1].word_end - words;
  outer_hash_ = frames_[dropped - 1].hash;
  count_ -= dropped;
  __builtin_memmove(frames_, frames_ + dropped, count_ * sizeof(Frame));
  __builtin_memmove(words_, words_ + words, words_left * sizeof(Word));
  for (uint32_t i = 0; i < count_; ++i) {
    frames_[i].word_end -= words;
    frames_[i].node = 0;
  }
  root_ = kRootDepthLimit;
}

// Puts a fresh frame on the remembered ones, with the words that lead from it to the frame outside.
void StackWalk::push(const Frame& fresh, const Frame* outer) {
  Frame& frame = frames_[count_];
  frame = fresh;
  frame.node = 0;
  uint32_t words = 0;
  bool outer_needs_rbp = false;
  uint64_t hash = outer_hash_;
  if (outer != nullptr) {
    hash = outer->hash;
    words = outer->word_end;
    outer_needs_rbp = outer->needs_rbp;
    const UnwindRule rule = frame.rule;
    if (outer_needs_rbp) {
      if (rule.kind() == RuleKind::kThroughRbp) {
        words_[words++] = {frame.rbp, outer->rbp};
      } else if (rule.rbp_distance() != 0) {
        words_[words++] = {outer->sp - 8 * rule.rbp_distance(), outer->rbp};
        outer_needs_rbp = false;
      }
    }
    words_[words++] = {outer->sp - 8, outer->pc};
    if (rule.kind() == RuleKind::kThroughRbp) {
      words_[words++] = {frame.rbp + static_cast<uint64_t>(rule.cfa_offset()), outer->sp};
    }
  }
  frame.word_end = words;
  frame.needs_rbp = frame.rule.uses_rbp() || outer_needs_rbp;
  frame.hash = hash * kBase + hash_of_frame(frame.pc, frame.module);
  ++count_;
}

uint32_t StackWalk::id_of_stack() {
  const bool is_cut = count_ > limit_ || (root_ == kRootDepthLimit && count_ == limit_);
  const uint32_t depth = count_ > limit_ ? limit_ : count_;
  const uint32_t first = count_ - depth;
  const uint32_t root = is_cut ? kRootDepthLimit : root_;
  uint64_t hash = frames_[count_ - 1].hash;
  if (is_cut) hash -= (first != 0 ? frames_[first - 1].hash : outer_hash_) * limit_power_;
  window_words_ = frames_[first].word_end;
  hash = finish(hash, root, depth, sample_bytes_);
  if (const uint32_t id = find_stack(hash); HEAPSNAP_LIKELY(id != kNoStack)) return id;

  if (root == kRootNoUnwindInfo || root == kRootBadFrame) ++truncated_;
  struct Path {
    Frame* frames;
    bool is_cut;
  } path{frames_ + first, is_cut};
  return insert_stack(
      hash, root, depth, sample_bytes_,
      [](void* context, uint32_t i) {
        const auto& path = *static_cast<Path*>(context);
        Frame& frame = path.frames[i];
        // Below another root the same frames are other nodes.
        return PathFrame{frame.pc, frame.module, path.is_cut ? nullptr : &frame.node};
      },
      &path);
}

void StackWalk::unwind_slowly(const CallerFrame& caller) {
  auto* plain = reinterpret_cast<PlainFrame*>(fresh_);
  const uint32_t found = slow_unwind(memory_, caller.sp, plain, collect_, root_);
  add(control.directory->slow_unwinds, 1);
  count_ = 0;
  outer_hash_ = 0;
  forgettable_ = true;
  for (uint32_t i = found; i-- > 0;) {
    Frame frame{};
    frame.pc = plain[i].pc;
    frame.module = plain[i].module;
    push(frame, count_ != 0 ? &frames_[count_ - 1] : nullptr);
  }
}

__attribute__((noinline)) uint32_t StackWalk::take_changed(const CallerFrame& caller) {
  memory_.begin_walk(caller.sp);
  forgettable_ = false;
  uint32_t root = 0;
  if (HEAPSNAP_LIKELY(unwind(caller, root))) {
    if (count_ == 0) {
      root_ = root;
      outer_hash_ = 0;
      add(control.directory->full_unwinds, 1);
    }
    for (uint32_t i = fresh_count_; i-- > 0;) {
      if (HEAPSNAP_UNLIKELY(count_ == capacity_)) drop_outer_half();
      push(fresh_[i], count_ != 0 ? &frames_[count_ - 1] : nullptr);
    }
  } else {
    unwind_slowly(caller);
  }
  if (HEAPSNAP_UNLIKELY(count_ == 0)) return kStackNotTaken;
  last_id_ = id_of_stack();
  if (HEAPSNAP_UNLIKELY(forgettable_)) count_ = 0;
  return last_id_;
}

}  // namespace heapsnap::tracker
