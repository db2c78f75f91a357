#include "tracker/stack_walk.h"

#include "tracker/stack_table.h"
#include "tracker/table_space.h"

namespace heapsnap::tracker {

namespace {

// An odd number without structure: the base of the polynomial.
constexpr uint64_t kBase = 0x8bb84b93962eacc9;
constexpr uint32_t kSlackFrames = 64;
// Where a frame leads that has always changed.
constexpr uint64_t kNoWords[2] = {0, 0};

uint64_t finish(uint64_t hash, uint32_t root, uint32_t depth, uint64_t sample_bytes) {
  hash ^= (static_cast<uint64_t>(root) << 32 | depth) * 0xd6e8feb86659fd93;
  hash ^= sample_bytes * 0xa0761d6478bd642f;
  hash = (hash ^ (hash >> 32)) * 0xd6e8feb86659fd93;
  return hash ^ (hash >> 29);
}

uint64_t word_below(uint64_t address) {
  return reinterpret_cast<const uint64_t*>(address)[-1];
}

bool uses_rbp(RuleKind kind) {
  return kind == RuleKind::kFromRbp || kind == RuleKind::kThroughRbp;
}

}  // namespace

bool StackWalk::prepare(uint32_t max_frames, uint64_t sample_bytes) {
  keep(0);
  if (limit_ == max_frames) rules_.forget();
  sample_bytes_ = sample_bytes;
  if (max_frames != limit_) {
    release();
    const uint32_t collect = max_frames + (max_frames < kSlackFrames ? kSlackFrames : max_frames);
    const uint32_t capacity = collect + kSlackFrames;
    const uint64_t rules = RuleTable::bytes(capacity + 2ULL);
    const uint64_t frames = sizeof(Frame) * (capacity + 4ULL);  // one before, one behind
    const uint64_t paths = sizeof(Path) * (capacity + 2ULL);
    const uint64_t extra = sizeof(Word) * 2 * (capacity + 2ULL);
    const uint64_t fresh = sizeof(Fresh) * (capacity + 2ULL);
    const uint64_t extra_frames = sizeof(uint32_t) * 2 * (capacity + 2ULL);
    memory_size_ = rules + frames + paths + extra + fresh + extra_frames;
    auto* block = static_cast<char*>(map_working_memory(memory_size_));
    if (block == nullptr) return false;
    memory_block_ = block;
    const auto take = [&block](uint64_t size) {
      char* part = block;
      block += size;
      return part;
    };
    rules_.use(take(rules));
    frames_ = reinterpret_cast<Frame*>(take(frames)) + 1;
    paths_ = reinterpret_cast<Path*>(take(paths));
    extra_ = reinterpret_cast<Word*>(take(extra));
    fresh_ = reinterpret_cast<Fresh*>(take(fresh));
    extra_frame_ = reinterpret_cast<uint32_t*>(take(extra_frames));
    limit_ = max_frames;
    collect_ = collect;
    capacity_ = capacity;
    limit_power_ = 1;
    for (uint32_t i = 0; i < max_frames; ++i) limit_power_ *= kBase;
    set_end();
  }
  return true;
}

void StackWalk::release() {
  keep(0);  // reads what is given back here
  if (memory_block_ != nullptr) unmap_working_memory(memory_block_, memory_size_);
  memory_block_ = nullptr;
  limit_ = 0;
}

void StackWalk::forget() {
  keep(0);
}

// Of the remembered frames only the outermost so many.
inline void StackWalk::keep(uint32_t frames) {
  count_ = frames;
  if (first_ > frames) first_ = frames;
  while (extra_count_ != 0 && extra_frame_[extra_count_ - 1] + 1 >= frames) --extra_count_;
  if (frames == 0) {
    first_pair_ = kNoPair;
    if (limit_ != 0) set_end();
    return;
  }
  // What leads to the innermost one is not there any more.
  frames_[frames - 1].unsaved = kLowerWord;
  if (first_pair_ >= frames - 1) {
    first_pair_ = kNoPair;
  } else if (pairs_end_ >= frames) {
    pairs_end_ = frames - 1;
  }
}

void StackWalk::set_end() {
  frames_[count_].pc = 1;
  frames_[count_].sp = reinterpret_cast<uint64_t>(kNoWords + 2);
}

// When the table of rules has it not: an interrupted instruction (the table is of calls), or a new
// one.
const FrameRule* StackWalk::look_up(uint64_t pc, bool is_exact, const Fresh* fresh) {
  has_learned_ = true;
  return rules_.look_up(pc, is_exact, static_cast<uint64_t>(fresh - fresh_));
}

__attribute__((noinline)) void StackWalk::learn() {
  has_learned_ = false;
  for (uint32_t i = 0; i < fresh_count_; ++i) rules_.learn(fresh_[i].rule);
}

// One frame outwards. `is_exact`: the caller's pc is that of an instruction, not a return address.
__attribute__((noinline)) StackWalk::Step StackWalk::step(const Fresh& from, bool& is_exact,
                                                          Fresh& caller, uint64_t& caller_pc) {
  const FrameRule& rule = *from.rule;
  const auto cfa_offset = static_cast<uint64_t>(int64_t{rule.cfa_offset});
  uint64_t cfa = 0;
  is_exact = false;
  switch (rule.kind) {
    case RuleKind::kFromRsp: cfa = from.sp + cfa_offset; break;
    case RuleKind::kFromRbp: cfa = from.rbp + cfa_offset; break;
    case RuleKind::kThroughRbp: {
      const uint64_t place = from.rbp + cfa_offset;
      if (!memory_.is_readable(place) || !memory_.is_readable(from.rbp)) return Step::kBad;
      cfa = *reinterpret_cast<const uint64_t*>(place);
      caller.rbp = *reinterpret_cast<const uint64_t*>(from.rbp);
      break;
    }
    case RuleKind::kSignal:
      if (!memory_.is_readable(from.sp + kSignalFrameRbp) ||
          !memory_.is_readable(from.sp + kSignalFrameRip)) {
        return Step::kBad;
      }
      caller_pc = *reinterpret_cast<const uint64_t*>(from.sp + kSignalFrameRip);
      caller.sp = *reinterpret_cast<const uint64_t*>(from.sp + kSignalFrameRsp);
      caller.rbp = *reinterpret_cast<const uint64_t*>(from.sp + kSignalFrameRbp);
      is_exact = true;
      forgettable_ = true;
      return caller_pc == 0 ? Step::kComplete : Step::kOut;
    case RuleKind::kEnd: return Step::kComplete;
    case RuleKind::kNoInfo: return Step::kNoInfo;
    case RuleKind::kPlt:  // never in a table of rules
    case RuleKind::kSpecial: return Step::kSlow;
  }
  if (HEAPSNAP_UNLIKELY(!memory_.is_readable(cfa - 8))) return Step::kBad;
  caller_pc = *reinterpret_cast<const uint64_t*>(cfa - 8);
  caller.sp = cfa;
  if (HEAPSNAP_UNLIKELY(cfa <= from.sp)) forgettable_ = true;  // onto another stack
  if (!memory_.is_own(from.sp)) steps_out_ = true;
  if (rule.kind != RuleKind::kThroughRbp) {
    caller.rbp = from.rbp;
    if (rule.rbp_offset != 0) {
      const uint64_t place = cfa + static_cast<uint64_t>(int64_t{rule.rbp_offset});
      if (HEAPSNAP_UNLIKELY(!memory_.is_readable(place))) return Step::kBad;
      caller.rbp = *reinterpret_cast<const uint64_t*>(place);
    }
  }
  return HEAPSNAP_UNLIKELY(caller_pc == 0) ? Step::kComplete : Step::kOut;
}

// Can the remembered frame stand for itself and all outside of it? `is_compared`: all words from
// frame first_ on are known to be as they were.
bool StackWalk::reaches(uint32_t frame, bool is_compared) const {
  const uint32_t total = frame + 1 + fresh_count_;
  if (root_ == kRootDepthLimit && total < limit_) return false;  // more are wanted than were kept
  const uint32_t first = total > limit_ ? total - limit_ : 0;
  if (is_compared) {
    for (uint32_t i = first; i < first_; ++i) {
      if (has_changed(frames_[i])) return false;
    }
    return true;
  }
  uint32_t extra = extra_count_;
  while (extra != 0 && extra_frame_[extra - 1] >= frame) --extra;
  for (uint32_t i = frame; i-- > first;) {
    for (; extra != 0 && extra_frame_[extra - 1] == i; --extra) {
      if (at(extra_[extra - 1]) != extra_[extra - 1].value) return false;
    }
    if (has_changed(frames_[i])) return false;
  }
  return true;
}

// When the innermost frame lies where the last one did: gives the frames from `same` (not 0) on the
// return addresses that are there now, and says up to which one all is as remembered, from then on.
// A frame's callers lie where they did as long as its row is the one that it was.
inline uint32_t StackWalk::renew(uint32_t same) {
  uint32_t end = count_;
  for (uint32_t i = extra_count_; i-- > 0;) {
    if (HEAPSNAP_UNLIKELY(at(extra_[i]) != extra_[i].value)) end = extra_frame_[i];
  }
  uint64_t hash = paths_[same - 1].hash;
  for (; same < end; ++same) {
    Frame& frame = frames_[same];
    const uint64_t pc = word_below(frame.sp);
    const FrameRule& rule = *rules_.place_of(pc);
    if (rule.pc != pc || rule.shape != frame.shape) break;
    if (frame.unsaved == 0 && word_below(frame.sp - 8) != frame.rbp) break;
    hash = hash * kBase + rule.hash;
    frame.pc = pc;
    paths_[same] = {hash, rule.module, 0};
  }
  return same;
}

// Fills fresh_ with what is not remembered, and leaves of frames_ what is outside of that. The
// outermost `same` frames are as they were; 0 with frames remembered: not known. False: some frame
// is described by no row.
__attribute__((always_inline)) inline bool StackWalk::unwind(const CallerFrame& caller,
                                                             uint32_t same, bool is_compared,
                                                             uint32_t& root) {
  uint32_t candidates = is_compared ? same : count_;
  uint64_t pc = caller.pc;
  uint64_t sp = caller.sp;
  uint64_t rbp = caller.rbp;
  uint64_t own_end = memory_.own_end(sp);
  uint64_t candidate_sp = candidates != 0 ? frames_[candidates - 1].sp : ~0ULL;
  Fresh* fresh = fresh_;
  const Fresh* const fresh_end = fresh_ + collect_;
  const auto end_with = [&](uint32_t kept) __attribute__((always_inline)) {
    fresh_count_ = static_cast<uint32_t>(fresh - fresh_);
    keep(kept);
    return true;
  };
  for (;;) {
    if (HEAPSNAP_UNLIKELY(sp >= candidate_sp)) {
      while (candidates != 0 && frames_[candidates - 1].sp < sp) --candidates;
      if (candidates != 0) {
        const Frame& known = frames_[candidates - 1];
        if (known.sp == sp && known.pc == pc && (known.needs_rbp == 0 || known.rbp == rbp)) {
          // As a rule nothing was cut off, and reaches() has nothing to look at.
          const bool is_whole = is_compared && first_ == 0 && root_ != kRootDepthLimit;
          fresh_count_ = static_cast<uint32_t>(fresh - fresh_);
          if (HEAPSNAP_LIKELY(is_whole) || reaches(candidates - 1, is_compared)) {
            return end_with(candidates);
          }
          candidates = 0;
        }
      }
      // Equal stack pointers with another pc: the next frame out may still be the one.
      if (candidates != 0 && frames_[candidates - 1].sp == sp) --candidates;
      candidate_sp = candidates != 0 ? frames_[candidates - 1].sp : ~0ULL;
    }
    const FrameRule* rule = rules_.place_of(pc);
    if (HEAPSNAP_UNLIKELY(rule->pc != pc)) {
      if (pc == 0) {
        root = kRootComplete;
        return end_with(0);
      }
      rule = look_up(pc, false, fresh);
    }
  interrupted:
    fresh->sp = sp;
    fresh->rbp = rbp;
    fresh->rule = rule;
    ++fresh;
    if (HEAPSNAP_UNLIKELY(fresh >= fresh_end)) {
      root = kRootDepthLimit;
      return end_with(0);
    }
    // As step() does, for the two usual kinds of frame on the usual stack.
    uint64_t cfa = static_cast<uint64_t>(int64_t{rule->cfa_offset});
    const auto rbp_offset = static_cast<uint64_t>(int64_t{rule->rbp_offset});
    if (HEAPSNAP_LIKELY(rule->kind == RuleKind::kFromRsp)) {
      cfa += sp;
    } else if (rule->kind == RuleKind::kFromRbp) {
      cfa += rbp;
      if (HEAPSNAP_UNLIKELY(cfa <= sp || cfa + rbp_offset < sp)) cfa = ~0ULL;
    } else {
      cfa = ~0ULL;
    }
    if (HEAPSNAP_LIKELY(cfa <= own_end)) {
      sp = cfa;
      pc = word_below(sp);
      if (rbp_offset != 0) rbp = word_below(sp + rbp_offset + 8);
      continue;
    }
    Fresh now{};
    bool is_exact = false;
    uint64_t next = 0;
    const Step taken = step(fresh[-1], is_exact, now, next);
    if (taken == Step::kOut) {
      pc = next;
      sp = now.sp;
      rbp = now.rbp;
      own_end = memory_.own_end(sp);
      if (forgettable_)
        candidate_sp = 0;  // from here on no order of stack pointers: look each time
      if (HEAPSNAP_LIKELY(!is_exact)) continue;
      rule = look_up(pc, true, fresh);
      goto interrupted;
    }
    end_with(0);
    if (taken == Step::kSlow) return false;
    root = taken == Step::kComplete ? kRootComplete
           : taken == Step::kNoInfo ? kRootNoUnwindInfo
                                    : kRootBadFrame;
    return true;
  }
}

void StackWalk::drop_outer_half() {
  const uint32_t dropped = count_ / 2;
  outer_hash_ = paths_[dropped - 1].hash;
  count_ -= dropped;
  __builtin_memmove(frames_, frames_ + dropped, count_ * sizeof(Frame));
  __builtin_memmove(paths_, paths_ + dropped, count_ * sizeof(Path));
  for (uint32_t i = 0; i < count_; ++i) paths_[i].node = 0;
  uint32_t kept = 0;
  for (uint32_t i = 0; i < extra_count_; ++i) {
    if (extra_frame_[i] < dropped) continue;
    extra_[kept] = extra_[i];
    extra_frame_[kept++] = extra_frame_[i] - dropped;
  }
  extra_count_ = kept;
  first_ = 0;
  if (first_pair_ != kNoPair) {
    first_pair_ = first_pair_ > dropped ? first_pair_ - dropped : 0;
    pairs_end_ = pairs_end_ > dropped ? pairs_end_ - dropped : 0;
  }
  root_ = kRootDepthLimit;
}

// The words besides the return address. True: the fresh frame's rbp matters.
inline bool StackWalk::push_rbp(const Fresh& fresh, Frame* place) {
  const FrameRule& rule = *fresh.rule;
  if (place == frames_) return uses_rbp(rule.kind);
  Frame& outer = place[-1];
  const auto index = static_cast<uint32_t>(&outer - frames_);
  const bool is_through_rbp = rule.kind == RuleKind::kThroughRbp;
  bool is_handed_through = false;
  if (outer.needs_rbp != 0) {
    if (is_through_rbp) {
      add_extra({fresh.rbp, outer.rbp}, index);
    } else if (rule.rbp_offset == -16) {
      outer.unsaved = 0;
      if (index < first_pair_) first_pair_ = pairs_end_ = index;
      if (index == pairs_end_) ++pairs_end_;
    } else if (rule.rbp_offset != 0) {
      add_extra({outer.sp + static_cast<uint64_t>(int64_t{rule.rbp_offset}), outer.rbp}, index);
    } else {
      is_handed_through = true;
    }
  }
  if (is_through_rbp) {
    add_extra({fresh.rbp + static_cast<uint64_t>(int64_t{rule.cfa_offset}), outer.sp}, index);
  }
  return is_handed_through || uses_rbp(rule.kind);
}

// Puts the fresh frames on the remembered ones, with the words that lead from each to the frame
// outside.
__attribute__((always_inline)) inline void StackWalk::push_fresh() {
  Frame* frame = frames_ + count_;
  Path* path = paths_ + count_;
  uint64_t hash = count_ != 0 ? path[-1].hash : outer_hash_;
  bool needs_rbp = count_ != 0 && frame[-1].needs_rbp != 0;
  const Fresh* const fresh_begin = fresh_;
  for (const Fresh* fresh = fresh_ + fresh_count_; fresh-- != fresh_begin; ++frame, ++path) {
    const FrameRule& rule = *fresh->rule;
    hash = hash * kBase + rule.hash;
    frame->pc = rule.pc;
    frame->sp = fresh->sp;
    frame->shape = rule.shape;
    frame->unsaved = kLowerWord;
    frame->needs_rbp = 0;
    if (needs_rbp || rule.kind != RuleKind::kFromRsp) {
      frame->rbp = fresh->rbp;
      needs_rbp = push_rbp(*fresh, frame);
      frame->needs_rbp = needs_rbp ? 1 : 0;
    }
    *path = {hash, rule.module, 0};
  }
  count_ += fresh_count_;
  set_end();
}

__attribute__((noinline)) uint32_t StackWalk::insert(uint64_t hash, uint32_t root, bool is_cut) {
  if (root == kRootNoUnwindInfo || root == kRootBadFrame) ++truncated_;
  struct Frames {
    const Frame* frames;
    Path* paths;
    bool is_cut;
  } all{frames_ + first_, paths_ + first_, is_cut};
  return insert_stack(
      hash, root, count_ - first_, sample_bytes_,
      [](void* context, uint32_t i) {
        const auto& all = *static_cast<Frames*>(context);
        Path& path = all.paths[i];
        // Below another root the same frames are other nodes.
        return PathFrame{all.frames[i].pc, path.module, all.is_cut ? nullptr : &path.node};
      },
      &all);
}

// The id of the stack of all remembered frames.
__attribute__((always_inline)) inline uint32_t StackWalk::take_remembered() {
  uint32_t root = root_;
  uint64_t hash = paths_[count_ - 1].hash;
  bool is_cut = false;
  first_ = 0;
  if (HEAPSNAP_UNLIKELY(count_ >= limit_)) {
    first_ = count_ - limit_;
    is_cut = first_ != 0 || root_ == kRootDepthLimit;
    if (is_cut) {
      root = kRootDepthLimit;
      hash -= (first_ != 0 ? paths_[first_ - 1].hash : outer_hash_) * limit_power_;
    }
  }
  hash = finish(hash, root, count_ - first_, sample_bytes_);
  uint32_t id = find_stack(hash);
  if (HEAPSNAP_UNLIKELY(id == kNoStack)) id = insert(hash, root, is_cut);
  last_id_ = id;
  return id;
}

__attribute__((noinline)) void StackWalk::unwind_slowly(const CallerFrame& caller) {
  if (has_learned_) learn();
  auto* plain = reinterpret_cast<PlainFrame*>(paths_);  // of no frames at present
  fresh_count_ = slow_unwind(memory_, caller.sp, plain, collect_, root_);
  add(control.directory->slow_unwinds, 1);
  outer_hash_ = 0;
  forgettable_ = true;
  for (uint32_t i = 0; i < fresh_count_; ++i) {
    const FrameRule& rule = *rules_.set_plain(plain[i].pc, plain[i].module, i);
    fresh_[i] = {0, 0, &rule};
  }
}

__attribute__((noinline)) uint32_t StackWalk::take_unwound(const CallerFrame& caller,
                                                           uint32_t same) {
  memory_.begin_walk(caller.sp);
  forgettable_ = false;
  steps_out_ = !memory_.is_own(caller.sp);
  uint32_t root = 0;
  if (HEAPSNAP_LIKELY(unwind(caller, same, !has_foreign_ && !steps_out_, root))) {
    if (HEAPSNAP_UNLIKELY(count_ == 0)) {
      root_ = root;
      outer_hash_ = 0;
      has_foreign_ = false;
      add(control.directory->full_unwinds, 1);
    }
    has_foreign_ |= steps_out_;
  } else {
    unwind_slowly(caller);
  }
  while (HEAPSNAP_UNLIKELY(count_ + fresh_count_ > capacity_ && count_ > 1)) drop_outer_half();
  push_fresh();
  if (HEAPSNAP_UNLIKELY(count_ == 0)) return kStackNotTaken;
  if (HEAPSNAP_UNLIKELY(has_learned_)) learn();
  const uint32_t id = take_remembered();
  if (HEAPSNAP_UNLIKELY(forgettable_)) keep(0);
  return id;
}

__attribute__((noinline)) uint32_t StackWalk::take_renewed(const CallerFrame& caller,
                                                           uint32_t same) {
  same = renew(same);
  if (HEAPSNAP_LIKELY(same == count_ && is_innermost(caller))) return take_remembered();
  return take_unwound(caller, same);
}

}  // namespace heapsnap::tracker
