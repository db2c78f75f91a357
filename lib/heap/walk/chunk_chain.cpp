#include "heap/walk/chunk_chain.h"

#include <algorithm>

namespace heapsnap {

Fence ChunkChain::fence_at(Address at, const ChainGoal& goal) {
  const Address end = goal.limit;
  if (goal.is_main) {
    // Two, or three when the old top was one alignment step larger than the smallest chunk.
    Fence fence{at, 0, format_.header};
    while (fence.posts < 3 && AddressRange{at, end}.contains(fence.end, format_.header)) {
      const auto size = size_field(fence.end);
      // The first post may say that the chunk before it is free; the others follow posts.
      const uint64_t ignored = fence.posts == 0 ? ChunkFormat::kPreviousInUse : 0;
      if (!size || (*size | ignored) != (format_.header | ChunkFormat::kPreviousInUse)) break;
      fence.end += format_.header;
      ++fence.posts;
    }
    return fence.posts < 2 ? Fence{at, 0, 0} : fence;
  }

  const Fence none{at, 0, 0};
  if (!goal.needs_fence || end - at > 2 * format_.header + format_.alignment) return none;
  unsigned posts = 0;
  auto size = size_field(at);
  if (size && format_.size_of(*size) == format_.header) {
    ++posts;
    at += format_.header;
    size = size_field(at);
  }
  if (!size || *size > ChunkFormat::kPreviousInUse) return none;
  if (at > end || end - at < format_.header) return none;
  return {end, posts + 1, end - at};
}

Chain ChunkChain::follow(Address from, const ChainGoal& goal, uint64_t most_chunks) {
  const uint64_t impossible = format_.impossible_bits(goal.is_main);
  Chain chain{ChainEnd::kBroken, from, 0};
  while (budget_ > 0) {
    --budget_;
    if (chain.at == goal.limit) {
      if (!goal.needs_fence) chain.end = ChainEnd::kLimit;
      return chain;
    }
    if (chain.at == goal.known && chain.chunks > 0) {
      chain.end = ChainEnd::kKnown;
      return chain;
    }
    const auto field = size_field(chain.at);
    if (!field) return chain;
    const uint64_t size = format_.size_of(*field);
    if (size < format_.min_size) {
      const Fence fence = fence_at(chain.at, goal);
      if (fence.posts != 0) chain = {ChainEnd::kFence, fence.end, chain.chunks};
      return chain;
    }
    if ((*field & impossible) != 0 || size > goal.limit - chain.at) return chain;
    if (chain.chunks == most_chunks) {
      chain.end = ChainEnd::kLong;
      return chain;
    }
    const Address next = chain.at + size;
    if (next != goal.limit || !goal.needs_fence) {
      const auto next_field = size_field(next);
      if (next_field && (*next_field & ChunkFormat::kPreviousInUse) == 0 &&
          cache_.word(next, format_.word) != size) {
        return chain;
      }
    }
    chain.at = next;
    ++chain.chunks;
  }
  return chain;
}

bool ChunkChain::may_begin(Address at, const ChainGoal& goal, bool is_first) {
  const auto field = size_field(at);
  if (!field || *field == 0) return false;
  const uint64_t size = format_.size_of(*field);
  if (size > goal.limit - at || (*field & format_.impossible_bits(goal.is_main)) != 0) return false;
  if (size < format_.min_size) return fence_at(at, goal).posts != 0;
  return !is_first || (*field & ChunkFormat::kPreviousInUse) != 0;
}

std::optional<Address> ChunkChain::resync(Address from, const ChainGoal& goal, bool is_first) {
  constexpr size_t kPagesAtOnce = 256;
  const uint64_t page_size = std::max<uint64_t>(residency_.page_size(), PageCache::kPageSize);
  std::vector<PageState> states(kPagesAtOnce);
  const bool has_known = from < goal.known && goal.known < goal.limit;
  const Address whole_end = has_known ? goal.known : goal.limit;
  Address at = format_.align_up(from);
  while (at < whole_end && at >= from) {
    const AddressRange readable = cache_.next_readable({at, whole_end});
    if (readable.is_empty()) break;
    at = format_.align_up(readable.begin);
    if (at < readable.begin) break;
    const Address end = readable.end;
    const Address block = at.align_down(page_size);
    residency_.read(block, states);
    budget_ -= std::min<uint64_t>(budget_, states.size());
    if (budget_ == 0) break;
    for (size_t i = 0; i < states.size() && at < end; ++i) {
      const Address page_end = block + (i + 1) * page_size;
      // A chunk's header was written: it is in no page that was never touched.
      if (states[i] != PageState::kAbsent) {
        for (; at < page_end && at < end && goal.limit - at >= format_.header;
             at += format_.alignment) {
          if (budget_ == 0) return has_known ? std::optional(goal.known) : std::nullopt;
          if (!may_begin(at, goal, is_first)) continue;
          const Chain chain = follow(at, goal);
          if (chain.end != ChainEnd::kBroken) return at;
          if (!is_first && chain.chunks >= kConvincingBehindDamage) return at;
        }
      }
      if (at < page_end) at = format_.align_up(std::min(page_end, end));
      if (at < from) break;
    }
  }
  return has_known ? std::optional(goal.known) : std::nullopt;
}

}  // namespace heapsnap
