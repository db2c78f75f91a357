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
  keep(0);
  if (limit_ != 0) __builtin_memset(rules_, 0, kRules * sizeof(Rule));  // else never used
  sample_bytes_ = sample_bytes;
  if (max_frames == limit_) return true;
  release();
  const uint32_t collect = max_frames + (max_frames < kSlackFrames ? kSlackFrames : max_frames);
  const uint32_t capacity = collect + kSlackFrames;
  const uint64_t frames = sizeof(Frame) * (capacity + 1ULL);
  const uint64_t extra = sizeof(Word) * 2 * (capacity + 1ULL);
  const uint64_t extra_frames = sizeof(uint32_t) * 2 * (capacity + 1ULL);
  const uint64_t fresh = sizeof(Fresh) * (collect + 1ULL);
  const uint64_t rules = sizeof(Rule) * kRules;
  memory_size_ = rules + frames + extra + fresh + extra_frames;
  auto* block = static_cast<char*>(map_working_memory(memory_size_));
  if (block == nullptr) return false;
  memory_block_ = block;
  rules_ = reinterpret_cast<Rule*>(block);
  block += rules;
  frames_ = reinterpret_cast<Frame*>(block);
  extra_ = reinterpret_cast<Word*>(block + frames);
  fresh_ = reinterpret_cast<Fresh*>(block + frames + extra);
  extra_frame_ = reinterpret_cast<uint32_t*>(block + frames + extra + fresh);
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
  keep(0);
}

// Of the remembered frames only the outermost so many.
void StackWalk::keep(uint32_t frames) {
  count_ = frames;
  if (first_ > frames) first_ = frames;
  while (extra_count_ != 0 && extra_frame_[extra_count_ - 1] + 1 >= frames) --extra_count_;
}

// When the table of rules has it not: an interrupted instruction (the table is of calls), or a new
// one.
__attribute__((noinline)) const StackWalk::Rule* StackWalk::look_up(uint64_t pc, bool is_exact) {
  const RuleAt found = look_up_rule(is_exact ? pc : pc - 1);
  Rule& place = found.lasting && !is_exact ? rules_[rule_index(pc)] : other_rule_;
  place = {pc, found.rule, found.module};
  return &place;
}

// One frame outwards. `is_exact`: the caller's pc is that of an instruction, not a return address.
__attribute__((noinline)) StackWalk::Step StackWalk::step(const Fresh& from, bool& is_exact,
                                                          Fresh& caller) {
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
  if (!memory_.is_own(from.sp)) steps_out_ = true;
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

// Can the remembered frame stand for itself and all outside of it? `is_compared`: all words from
// frame first_ on are known to be as they were.
bool StackWalk::reaches(uint32_t frame, bool is_compared) const {
  const uint32_t total = frame + 1 + fresh_count_;
  if (root_ == kRootDepthLimit && total < limit_) return false;  // more are wanted than were kept
  const uint32_t first = total > limit_ ? total - limit_ : 0;
  if (is_compared) {
    for (uint32_t i = first; i < first_; ++i) {
      if (change(frames_[i]) != 0) return false;
    }
    return true;
  }
  uint32_t extra = extra_count_;
  while (extra != 0 && extra_frame_[extra - 1] >= frame) --extra;
  for (uint32_t i = frame; i-- > first;) {
    for (; extra != 0 && extra_frame_[extra - 1] == i; --extra) {
      if (at(extra_[extra - 1]) != extra_[extra - 1].value) return false;
    }
    if (change(frames_[i]) != 0) return false;
  }
  return true;
}

// Fills fresh_ with what is not remembered, and leaves of frames_ what is outside of that. The
// outermost `same` frames are as they were; 0 with frames remembered: not known. False: some frame
// is described by no row.
bool StackWalk::unwind(const CallerFrame& caller, uint32_t same, uint32_t& root) {
  const bool is_compared = !has_foreign_ && memory_.is_own(caller.sp);
  uint32_t candidates = is_compared ? same : count_;
  uint64_t pc = caller.pc;
  uint64_t sp = caller.sp;
  uint64_t rbp = caller.rbp;
  uint64_t own_end = memory_.own_end(sp);
  uint64_t candidate_sp = candidates != 0 ? frames_[candidates - 1].sp : ~0ULL;
  bool is_exact = false;
  const Rule* const rules = rules_;
  Fresh* fresh = fresh_;
  Fresh* const fresh_end = fresh_ + collect_;
  for (;;) {
    if (HEAPSNAP_UNLIKELY(sp >= candidate_sp)) {
      while (candidates != 0 && frames_[candidates - 1].sp < sp) --candidates;
      if (candidates != 0) {
        const Frame& known = frames_[candidates - 1];
        if (known.sp == sp && known.pc == pc && (!known.needs_rbp || known.rbp == rbp) &&
            !is_exact) {
          fresh_count_ = static_cast<uint32_t>(fresh - fresh_);
          if (reaches(candidates - 1, is_compared)) {
            keep(candidates);
            return true;
          }
          candidates = 0;
        }
      }
      // Equal stack pointers with another pc: the next frame out may still be the one.
      if (candidates != 0 && frames_[candidates - 1].sp == sp) --candidates;
      candidate_sp = candidates != 0 ? frames_[candidates - 1].sp : ~0ULL;
    }
    const Rule* rule = rules + rule_index(pc);
    if (HEAPSNAP_UNLIKELY(rule->pc != pc || is_exact)) rule = look_up(pc, is_exact);
    fresh->sp = sp;
    fresh->pc = pc;
    fresh->rbp = rbp;
    fresh->rule = rule->rule;
    fresh->module = rule->module;
    if (HEAPSNAP_UNLIKELY(++fresh == fresh_end)) {
      root = kRootDepthLimit;
      break;
    }
    // As step() does, for the two usual kinds of frame on the usual stack.
    const bool is_from_rsp = rule->rule.kind() == RuleKind::kFromRsp;
    if (HEAPSNAP_LIKELY(is_from_rsp || rule->rule.kind() == RuleKind::kFromRbp)) {
      const uint64_t base = is_from_rsp ? sp : rbp;
      const uint64_t cfa = base + static_cast<uint64_t>(rule->rule.cfa_offset());
      const uint64_t distance = rule->rule.rbp_distance();
      if (HEAPSNAP_LIKELY(cfa <= own_end &&
                          (is_from_rsp || (cfa > sp && cfa - 8 * distance >= sp)))) {
        const auto* const words = reinterpret_cast<const uint64_t*>(cfa);
        const uint64_t next = words[-1];
        if (HEAPSNAP_LIKELY(next != 0)) {
          if (distance != 0) rbp = words[-static_cast<int64_t>(distance)];
          pc = next;
          sp = cfa;
          is_exact = false;
          continue;
        }
      }
    }
    Fresh now;
    bool is_exact_next = false;
    const Step taken = step(fresh[-1], is_exact_next, now);
    if (taken == Step::kOut) {
      is_exact = is_exact_next;
      pc = now.pc;
      sp = now.sp;
      rbp = now.rbp;
      own_end = memory_.own_end(sp);
      if (forgettable_)
        candidate_sp = 0;  // from here on no order of stack pointers: look each time
      continue;
    }
    if (taken == Step::kSlow) return false;
    root = taken == Step::kComplete ? kRootComplete
           : taken == Step::kNoInfo ? kRootNoUnwindInfo
                                    : kRootBadFrame;
    break;
  }
  fresh_count_ = static_cast<uint32_t>(fresh - fresh_);
  keep(0);
  return true;
}

void StackWalk::drop_outer_half() {
  const uint32_t dropped = count_ / 2;
  outer_hash_ = frames_[dropped - 1].hash;
  count_ -= dropped;
  __builtin_memmove(frames_, frames_ + dropped, count_ * sizeof(Frame));
  for (uint32_t i = 0; i < count_; ++i) frames_[i].node = 0;
  uint32_t kept = 0;
  for (uint32_t i = 0; i < extra_count_; ++i) {
    if (extra_frame_[i] < dropped) continue;
    extra_[kept] = extra_[i];
    extra_frame_[kept++] = extra_frame_[i] - dropped;
  }
  extra_count_ = kept;
  root_ = kRootDepthLimit;
}

// The words besides the return address. True: the fresh frame's rbp matters.
inline bool StackWalk::push_extra(const Fresh& fresh, const Frame* place) {
  if (place == frames_) return fresh.rule.uses_rbp();
  const Frame& outer = place[-1];
  const auto index = static_cast<uint32_t>(&outer - frames_);
  const bool is_through_rbp = fresh.rule.kind() == RuleKind::kThroughRbp;
  bool is_handed_through = false;
  if (outer.needs_rbp) {
    if (is_through_rbp) {
      add_extra({fresh.rbp, outer.rbp}, index);
    } else if (fresh.rule.rbp_distance() != 0) {
      add_extra({outer.sp - 8 * fresh.rule.rbp_distance(), outer.rbp}, index);
    } else {
      is_handed_through = true;
    }
  }
  if (is_through_rbp) {
    add_extra({fresh.rbp + static_cast<uint64_t>(fresh.rule.cfa_offset()), outer.sp}, index);
  }
  return is_handed_through || fresh.rule.uses_rbp();
}

// Puts the fresh frames on the remembered ones, with the words that lead from each to the frame
// outside.
void StackWalk::push_fresh() {
  while (HEAPSNAP_UNLIKELY(count_ > 1 && count_ + fresh_count_ > capacity_)) drop_outer_half();
  Frame* frame = frames_ + count_;
  uint64_t hash = count_ != 0 ? frame[-1].hash : outer_hash_;
  bool needs_rbp = count_ != 0 && frame[-1].needs_rbp;
  const Fresh* const fresh_begin = fresh_;
  for (const Fresh* fresh = fresh_ + fresh_count_; fresh-- != fresh_begin; ++frame) {
    const UnwindRule rule = fresh->rule;
    hash = hash * kBase + hash_of_frame(fresh->pc, fresh->module);
    if (needs_rbp || rule.kind() != RuleKind::kFromRsp) {
      needs_rbp = push_extra(*fresh, frame);
    }
    frame->sp = fresh->sp;
    frame->pc = fresh->pc;
    frame->rbp = fresh->rbp;
    frame->rule = rule;
    frame->module = fresh->module;
    frame->hash = hash;
    frame->node = 0;
    frame->needs_rbp = needs_rbp;
  }
  count_ += fresh_count_;
}

uint32_t StackWalk::id_of_stack() {
  const bool is_cut = count_ > limit_ || (root_ == kRootDepthLimit && count_ == limit_);
  const uint32_t depth = count_ > limit_ ? limit_ : count_;
  const uint32_t first = count_ - depth;
  const uint32_t root = is_cut ? kRootDepthLimit : root_;
  uint64_t hash = frames_[count_ - 1].hash;
  if (is_cut) hash -= (first != 0 ? frames_[first - 1].hash : outer_hash_) * limit_power_;
  first_ = first;
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
  keep(0);
  outer_hash_ = 0;
  forgettable_ = true;
  // In place: a frame is larger than a plain one, so the last goes first.
  for (uint32_t i = found; i-- > 0;) {
    const PlainFrame frame = plain[i];
    fresh_[i] = {0, frame.pc, 0, {static_cast<uint32_t>(RuleKind::kFromRsp)}, frame.module};
  }
  fresh_count_ = found;
  push_fresh();
}

__attribute__((noinline)) uint32_t StackWalk::take_changed(const CallerFrame& caller,
                                                           uint32_t same) {
  memory_.begin_walk(caller.sp);
  forgettable_ = false;
  steps_out_ = !memory_.is_own(caller.sp);
  uint32_t root = 0;
  if (HEAPSNAP_LIKELY(unwind(caller, same, root))) {
    if (count_ == 0) {
      root_ = root;
      outer_hash_ = 0;
      has_foreign_ = false;
      add(control.directory->full_unwinds, 1);
    }
    has_foreign_ |= steps_out_;
    push_fresh();
  } else {
    unwind_slowly(caller);
  }
  if (HEAPSNAP_UNLIKELY(count_ == 0)) return kStackNotTaken;
  last_id_ = id_of_stack();
  if (HEAPSNAP_UNLIKELY(forgettable_)) keep(0);
  return last_id_;
}

}  // namespace heapsnap::tracker
