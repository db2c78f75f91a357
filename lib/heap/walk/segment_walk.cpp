#include "heap/walk/segment_walk.h"

#include <algorithm>
#include <cstring>

namespace heapsnap {
namespace {

constexpr unsigned kMostDamages = 256;  // in one area, before the rest of it is given up
constexpr size_t kWorthAPass = 256;     // chunks
constexpr uint64_t kWithoutPass = 64 << 10;

template <typename Word>
inline uint64_t load(const std::byte* from) {
  Word value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

}  // namespace

SegmentWalk::SegmentWalk(Target& target, HeapPasses* passes, PageCache& cache,
                         SortedAddresses::Cursor listed, ChunkSink& sink,
                         std::vector<HeapSegment>& segments, std::vector<uint64_t>& unknown_bytes,
                         CorruptionLog& log)
    : listed_(std::move(listed)),
      batcher_(sink, segments),
      unknown_bytes_(unknown_bytes),
      log_(log),
      window_(target),
      passes_(passes),
      chain_(cache, target.residency()) {}

void SegmentWalk::walk(const HeapArea& area, const ChunkFormat& format, bool is_main) {
  area_ = area;
  format_ = format;
  is_main_ = is_main;
  damages_ = 0;
  answers_ = {};
  next_pass_ = Address();
  chain_.use_format(format);
  accounted_to_ = area.system.begin;
  open_segment(area.first_chunk);
  if (!area_.top.is_null() && (area_.top < at() || !format_.is_aligned(area_.top) ||
                               area_.system.end - area_.top < format_.header)) {
    log(area_.top, "top is where its heap cannot have a chunk");
    area_.top = Address();
  }
  limit_ = area_.top.is_null() ? area_.system.end : area_.top;
  drop_listed_before(at(), false);
  while (step()) {
  }
  close_segment();
}

void SegmentWalk::finish() {
  drop_listed_before(Address(~0ULL), false);
}

bool SegmentWalk::step() {
  if (at() == limit_) return at_limit();
  if (run_answers()) return true;
  if (!has_header(at())) {
    damage(at(), "the memory at " + hex(at()) + " cannot be read");
    return true;
  }
  drop_listed_before(at(), false);
  switch (format_.word == 8 ? run<uint64_t>() : run<uint32_t>()) {
    case Stop::kFull: batcher_.flush(); return true;
    case Stop::kDecide: decide_chunk(); return true;
    case Stop::kNoChunk: break;
  }
  if (at() == limit_) return true;
  const uint64_t field = window_word(at() + format_.word);
  if (format_.size_of(field) < format_.min_size) {
    const Fence fence = chain_.fence_at(at(), goal());
    if (fence.posts != 0) return close_with(fence);
  }
  damage(at() + format_.word,
         "the size field of the chunk at " + hex(at()) + " holds " + hex(field));
  return true;
}

bool SegmentWalk::ask_pass() {
  if (passes_ == nullptr || format_.word != 8 || at() < next_pass_) return false;
  ChunkScan scan{.at = at(),
                 .limit = limit_,
                 .readable_end = read_limit(),
                 .min_size = format_.min_size,
                 .impossible = format_.impossible_bits(is_main_)};
  answers_ = passes_->scan(scan);
  // Where it soon comes to something odd, more of that may follow.
  if (answers_.size() < kWorthAPass) next_pass_ = scan.at + kWithoutPass;
  return !answers_.empty();
}

bool SegmentWalk::run_answers() {
  if (answers_.empty() && !ask_pass()) return false;
  drop_listed_before(at(), false);
  if (batcher_.count() == ChunkBatcher::kBatch) batcher_.flush();
  const uint64_t min_large_size = format_.min_large_size;
  uint64_t* const sizes = batcher_.sizes() + batcher_.count();
  ChunkState* const states = batcher_.states() + batcher_.count();
  const size_t room = std::min(ChunkBatcher::kBatch - batcher_.count(), answers_.size());
  uint64_t chunk = at().value();
  uint64_t listed = listed_.at_end() ? ~0ULL : listed_.address().value();
  size_t done = 0;
  for (; done < room; ++done) {
    const uint64_t size = answers_[done] & ~HeapPasses::kFree;
    const bool in_use = (answers_[done] & HeapPasses::kFree) == 0;
    ChunkState state = size < min_large_size ? ChunkState::kSmallbin : ChunkState::kLargebin;
    state = in_use ? ChunkState::kUsed : state;
    if (chunk >= listed) {
      const ChunkState by_list = listed_.state();
      if (chunk != listed || (by_list == ChunkState::kUnsorted) == in_use) [[unlikely]] {
        if (done != 0) break;
        state = listed_state(in_use, state);
      } else {
        state = by_list;
        last_listed_ = listed_.address();
        listed_.next();
      }
      listed = listed_.at_end() ? ~0ULL : listed_.address().value();
    }
    sizes[done] = size;
    states[done] = state;
    chunk += size;
  }
  batcher_.set_filled(batcher_.count() + done, Address(chunk));
  answers_ = answers_.subspan(done);
  return true;
}

template <typename Word>
SegmentWalk::Stop SegmentWalk::run() {
  // Offsets from the window's begin. No listed address is before it (see step()).
  const uint64_t origin = window_.begin().value();
  const std::byte* const bytes = window_.data();
  const uint64_t readable = window_.size() - 2 * sizeof(Word);
  const uint64_t limit = limit_.value() - origin;
  const uint64_t min_size = format_.min_size;
  const uint64_t min_large_size = format_.min_large_size;
  const uint64_t impossible = format_.impossible_bits(is_main_);
  uint64_t* const sizes = batcher_.sizes();
  ChunkState* const states = batcher_.states();

  uint64_t at = batcher_.at().value() - origin;
  uint64_t listed = listed_.at_end() ? ~0ULL : listed_.address().value() - origin;
  uint64_t field = load<Word>(bytes + at + sizeof(Word));
  size_t count = batcher_.count();
  Stop stop = Stop::kDecide;
  for (;;) {
    const uint64_t size = field & ~ChunkFormat::kFlags;
    if (size < min_size || size > limit - at || (field & impossible) != 0) [[unlikely]] {
      stop = Stop::kNoChunk;
      break;
    }
    if (count == ChunkBatcher::kBatch) [[unlikely]] {
      stop = Stop::kFull;
      break;
    }
    const uint64_t next = at + size;
    if (next > readable) [[unlikely]]
      break;
    const uint64_t next_field = load<Word>(bytes + next + sizeof(Word));
    const bool in_use = (next_field & ChunkFormat::kPreviousInUse) != 0;
    if (!in_use && load<Word>(bytes + next) != size) [[unlikely]]
      break;
    ChunkState state = size < min_large_size ? ChunkState::kSmallbin : ChunkState::kLargebin;
    state = in_use ? ChunkState::kUsed : state;
    if (at >= listed) {
      state = listed_.state();
      if (at != listed || (state == ChunkState::kUnsorted) == in_use) [[unlikely]]
        break;
      last_listed_ = listed_.address();
      listed_.next();
      listed = listed_.at_end() ? ~0ULL : listed_.address().value() - origin;
    }
    sizes[count] = size;
    states[count] = state;
    ++count;
    at = next;
    field = next_field;
  }
  batcher_.set_filled(count, Address(origin + at));
  return stop;
}

// A chunk of sound size that the inner loop left alone: its next header is in another piece of
// memory, or its flags, its footer and the lists do not agree.
void SegmentWalk::decide_chunk() {
  const uint64_t size = format_.size_of(window_word(at() + format_.word));
  const Address next = at() + size;
  drop_listed_before(at(), false);

  // Behind the last chunk of an area without top is no header.
  const bool has_next = (next != limit_ || !area_.top.is_null()) && has_header(next);
  if (!has_next) {
    const bool is_listed = !listed_.at_end() && listed_.address() == at();
    const bool in_use = is_listed && listed_.state() != ChunkState::kUnsorted;
    batcher_.push(size, listed_state(in_use, ChunkState::kUnknown));
    return;
  }
  const uint64_t next_field = window_word(next + format_.word);
  const bool in_use = (next_field & ChunkFormat::kPreviousInUse) != 0;
  ChunkState state = ChunkState::kUsed;
  if (!in_use) {
    state = size < format_.min_large_size ? ChunkState::kSmallbin : ChunkState::kLargebin;
    const uint64_t footer = window_word(next);
    if (footer != size) {
      // Where the next header is damaged as a whole, that is told when the walk comes to it.
      if (may_be_size(next, next_field)) {
        log(next, "the free chunk at " + hex(at()) + " has size " + hex(size) +
                      ", but its footer says " + hex(footer));
      }
      state = ChunkState::kUnknown;
    }
  }
  batcher_.push(size, listed_state(in_use, state));
}

bool SegmentWalk::may_be_size(Address chunk, uint64_t field) const {
  const uint64_t size = format_.size_of(field);
  return (field & format_.impossible_bits(is_main_)) == 0 && size >= format_.header &&
         size <= area_.system.end - chunk;
}

// The state of the chunk at at(), of which the flags say `by_flags`, with regard to the lists.
ChunkState SegmentWalk::listed_state(bool in_use, ChunkState by_flags) {
  if (listed_.at_end() || listed_.address() != at()) return by_flags;
  const ChunkState listed = listed_.state();
  last_listed_ = at();
  listed_.next();
  if ((listed == ChunkState::kUnsorted) == in_use) {
    log(at(), "the chunk at " + hex(at()) + " is listed as " + to_string(listed) +
                  ", but its flags say it is " + (in_use ? "in use" : "in a bin"));
    return ChunkState::kUnknown;
  }
  return by_flags != ChunkState::kUnknown || in_use ? listed : by_flags;
}

bool SegmentWalk::at_limit() {
  if (area_.top.is_null()) {
    log(at(), "the chunks end at " + hex(at()) + " without top or a fencepost");
    return false;
  }
  const uint64_t size = area_.system.end - at();
  const uint64_t field = has_header(at()) ? window_word(at() + format_.word) : 0;
  if (format_.size_of(field) != size) {
    log(at() + format_.word,
        "the size field of top holds " + hex(field) + ", but its segment ends after " + hex(size));
  }
  drop_listed_before(at() + 1, false);  // no list holds top
  batcher_.push(size, ChunkState::kTop);
  return false;
}

bool SegmentWalk::close_with(const Fence& fence) {
  // Where a thread heap's old top had no room for a post of its own, the whole of it became one.
  ChunkState* const before = batcher_.last_state();
  if (!is_main_ && fence.posts == 1 && before != nullptr && *before == ChunkState::kUsed &&
      batcher_.last_size() == 2 * format_.header) {
    *before = ChunkState::kFence;
  }
  for (unsigned post = 1; post < fence.posts; ++post)
    batcher_.push(format_.header, ChunkState::kFence);
  batcher_.push(fence.last_size, ChunkState::kFence);
  if (area_.kind != SegmentKind::kBrk) return false;

  // A foreign sbrk call took what follows; the next segment of the area begins somewhere behind it.
  auto next = chain_.resync(at(), goal(), true);
  if (!next && !area_.top.is_null()) {
    if (!may_begin_with_top()) log(at(), "no chunks were found between the fencepost and top");
    next = area_.top;
  }
  if (!next) return false;
  close_segment();
  open_segment(*next);
  drop_listed_before(*next, false);
  return true;
}

// sysmalloc() makes all of a new segment top, and what is freed beside top becomes part of it. So a
// segment whose chunks are all free again is top alone, which says that the chunk before it is in
// use, as every first chunk does.
bool SegmentWalk::may_begin_with_top() {
  if (chain_.is_exhausted() || !has_header(area_.top)) return false;
  return (window_word(area_.top + format_.word) & ChunkFormat::kPreviousInUse) != 0;
}

void SegmentWalk::damage(Address where, const std::string& what) {
  log(where, what);
  if (ChunkState* const before = batcher_.last_state()) {
    const bool hangs_on_damage = *before == ChunkState::kUsed || *before == ChunkState::kSmallbin ||
                                 *before == ChunkState::kLargebin;
    if (hangs_on_damage) *before = ChunkState::kUnknown;
  }
  drop_listed_before(at() + 1, true);
  std::optional<Address> next;
  if (++damages_ <= kMostDamages) next = chain_.resync(at() + format_.alignment, goal(), false);
  if (damages_ == kMostDamages) log(where, "too much damage: the rest of this heap is not walked");
  const Address end = next.value_or(limit_);
  drop_listed_before(end, true);
  unknown_bytes_[static_cast<size_t>(area_.arena)] += end - at();
  batcher_.push(end - at(), ChunkState::kUnknown);
}

void SegmentWalk::drop_listed_before(Address end, bool is_silent) {
  for (; !listed_.at_end() && listed_.address() < end; listed_.next()) {
    if (is_silent) continue;
    const Address chunk = listed_.address();
    log(chunk, chunk == last_listed_
                   ? "the chunk at " + hex(chunk) + " is listed as free twice"
                   : "the list of free chunks (" + std::string(to_string(listed_.state())) +
                         ") has " + hex(chunk) + ", where no chunk begins");
  }
}

void SegmentWalk::open_segment(Address begin) {
  batcher_.open_segment(begin, area_.arena, area_.kind);
}

void SegmentWalk::close_segment() {
  HeapSegment& segment = batcher_.close_segment();
  if (area_.kind != SegmentKind::kBrk) {
    segment.system_bytes = area_.system.size();
    return;
  }
  // malloc counts what it wasted on alignment, and a hole before the segment, in system_mem.
  const Address end = std::min(segment.range.end.align_up(format_.alignment), area_.system.end);
  segment.system_bytes = end - accounted_to_;
  accounted_to_ = end;
}

bool SegmentWalk::has_header(Address at) {
  if (window_.holds(at, format_.header)) return true;
  if (gives_in_window_) batcher_.flush();
  return window_.move_to(at, read_limit()) >= format_.header;
}

uint64_t SegmentWalk::window_word(Address at) const {
  const std::byte* const from = window_.data() + (at - window_.begin());
  return format_.word == 8 ? load<uint64_t>(from) : load<uint32_t>(from);
}

Address SegmentWalk::read_limit() const {
  return area_.top.is_null() ? area_.system.end : area_.top + format_.header;
}

ChainGoal SegmentWalk::goal() const {
  ChainGoal goal;
  goal.limit = limit_;
  goal.is_main = is_main_;
  goal.needs_fence = area_.top.is_null();
  if (!listed_.at_end() && at() < listed_.address()) goal.known = listed_.address();
  return goal;
}

void SegmentWalk::log(Address where, const std::string& what) {
  log_.add(where, area_.arena, batcher_.segment(), what);
}

}  // namespace heapsnap
