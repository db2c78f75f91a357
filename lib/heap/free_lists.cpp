#include "heap/free_lists.h"

#include <algorithm>

namespace heapsnap {
namespace {

constexpr uint64_t kMostInTcacheBin = 0xffff;  // the counts have 16 bits
constexpr unsigned kSmallTcacheBins = 64;  // of one size each; those above hold a range of sizes
constexpr uint64_t kShortList = 64;        // chunks; a pass costs as much as some reads

}  // namespace

// Tells when a walk is in a ring (Brent): the place remembered moves on at each power of two.
class FreeLists::RingGuard {
 public:
  bool closes(Address at) {
    if (at == remembered_) return true;
    if (++steps_ == next_power_) {
      remembered_ = at;
      next_power_ *= 2;
    }
    return false;
  }

 private:
  Address remembered_;
  uint64_t steps_ = 0;
  uint64_t next_power_ = 1;
};

FreeLists::FreeLists(Target& target, PageCache& cache, const MallocLayout& layout,
                     const HeapAreas& areas, SortedAddresses& listed, CorruptionLog& log)
    : target_(target),
      cache_(cache),
      layout_(layout),
      format_(layout),
      areas_(areas),
      listed_(listed),
      log_(log),
      most_chunks_(areas.bytes() / format_.min_size) {}

std::optional<uint64_t> FreeLists::size_in_heap(Address chunk, int32_t arena) {
  if (!format_.is_aligned(chunk)) return std::nullopt;
  const HeapArea* const area = areas_.find(chunk);
  if (area == nullptr || (arena >= 0 && area->arena != arena)) return std::nullopt;
  return word(chunk + format_.word);
}

Address FreeLists::reveal(Address at, uint64_t stored) const {
  const uint64_t mask = layout_.safe_linking ? at.value() >> 12 : 0;
  return format_.pointer(stored ^ mask);
}

void FreeLists::follow_bins(const Arena& arena, int32_t index) {
  if (arena.top.is_null()) return;  // never used: its bins may be all zero (up to 2.41)
  uint64_t bytes = 0;
  heaps_.clear();
  for (const HeapArea& area : areas_.all()) {
    if (area.arena != index) continue;
    bytes += area.system.size();
    heaps_.push_back(area.system);
  }
  // Walking an arena front to back costs about as much as a random read in an eighth of its pages.
  enough_pages_ = cache_.pages_read() + 64 + bytes / PageCache::kPageSize / 8;
  links_.reset();
  for (unsigned bin = 0; bin < layout_.state.fastbin_count; ++bin) {
    follow_fastbin(arena, index, bin);
  }
  follow_unsorted(arena, index);
}

void FreeLists::follow_fastbin(const Arena& arena, int32_t index, unsigned bin) {
  Address from = arena.address + layout_.state.fastbins + bin * layout_.word;
  const auto head = word(from);
  Address chunk = format_.pointer(head.value_or(0));
  // fastbin_index(): bins are two words apart in size, whatever the alignment.
  const uint64_t expected = (bin + 2) * format_.header;
  RingGuard ring;
  ListScan list;
  list.size = expected;
  list.is_protected = layout_.safe_linking;
  for (uint64_t steps = 0; !chunk.is_null(); ++steps) {
    list.chunk = chunk;
    while (pass_over(list, ChunkState::kFastbin, ring, steps))
      from = list.previous + format_.header;
    chunk = list.chunk;
    if (list.is_done()) return;
    const FreeLinks* const links = links_of(arena, index, true);
    const auto known = links != nullptr ? links->find(chunk) : std::nullopt;
    const bool is_known = known && known->fast_size == expected;
    const auto size = is_known ? expected : size_in_heap(chunk, index);
    if (!size || format_.size_of(*size) != expected) {
      log_.add(from, index, -1,
               "fastbin " + std::to_string(bin) + " links to " + hex(chunk) +
                   (size ? ", a chunk of size " + hex(format_.size_of(*size))
                         : std::string(", which is no chunk of this arena")));
      return;
    }
    if (ring.closes(chunk) || steps >= most_chunks_) {
      log_.add(chunk, index, -1, "fastbin " + std::to_string(bin) + " is a ring");
      return;
    }
    listed_.add(chunk, ChunkState::kFastbin);
    from = chunk + format_.header;
    if (is_known) {
      chunk = known->forward;
      continue;
    }
    const auto next = word(from);
    if (!next) {
      log_.add(from, index, -1, "a fastbin's link cannot be read");
      return;
    }
    chunk = reveal(from, *next);
  }
}

bool FreeLists::pass_over(ListScan& list, ChunkState state, RingGuard& ring, uint64_t& steps) {
  HeapPasses* const passes = target_.passes();
  const bool has_plain_pointers = format_.word == 8 && format_.pointer_mask == ~0ULL;
  if (passes == nullptr || !has_plain_pointers || steps < kShortList) return false;
  Address previous = list.previous;
  const ListedChunks told = passes->follow(list, heaps_);
  steps += told.backward.size();
  for (const uint64_t address : told.backward) listed_.add(Address(address), state);
  for (const uint64_t address : told.forward) {
    const Address chunk(address);
    if (ring.closes(chunk) || steps >= most_chunks_) {
      list.chunk = chunk;  // the caller will meet the ring again
      list.previous = previous;
      return false;
    }
    listed_.add(chunk, state);
    previous = chunk;
    ++steps;
  }
  return !told.forward.empty();
}

const FreeLinks* FreeLists::links_of(const Arena& arena, int32_t index, bool with_fast) {
  if (!links_ && cache_.pages_read() > enough_pages_) {
    links_ = std::make_unique<FreeLinks>(target_, cache_, layout_, areas_, index, arena.is_main,
                                         with_fast);
  }
  return links_.get();
}

// Leaves in `list` how far it got from either end. False when it met damage, which is in the log.
bool FreeLists::follow_unsorted_forward(const Arena& arena, int32_t index, ListScan& list) {
  RingGuard ring;
  for (uint64_t steps = 0;; ++steps) {
    while (pass_over(list, ChunkState::kUnsorted, ring, steps)) {
    }
    if (list.is_done()) return true;
    const Address chunk = list.chunk;
    std::optional<uint64_t> next;
    // What has a link there is a free chunk, by the walk that gathered them.
    const FreeLinks* const links = links_of(arena, index, false);
    const auto known = links != nullptr ? links->find(chunk) : std::nullopt;
    if (known && known->fast_size == 0) {
      next = known->forward.value();
    } else {
      const auto back =
          size_in_heap(chunk, index) ? word(chunk + format_.header + format_.word) : std::nullopt;
      if (!back || format_.pointer(*back) != list.previous) {
        log_.add(list.previous + format_.header, index, -1,
                 "the unsorted list links to " + hex(chunk) +
                     (back ? ", whose back link is " + hex(*back)
                           : std::string(", which is no chunk of this arena")));
        return false;
      }
      next = word(chunk + format_.header);
    }
    if (ring.closes(chunk) || steps >= most_chunks_) {
      log_.add(chunk, index, -1, "the unsorted list is a ring without its bin");
      return false;
    }
    listed_.add(chunk, ChunkState::kUnsorted);
    list.previous = chunk;
    list.chunk = format_.pointer(next.value_or(0));
  }
}

void FreeLists::follow_unsorted(const Arena& arena, int32_t index) {
  // fd of the last chunk is the bin, whose "chunk" is two words before its own fd and bk.
  const Address bin = arena.address + layout_.state.bins - format_.header;
  ListScan list;
  list.chunk = format_.pointer(word(bin + format_.header).value_or(0));
  list.tail = format_.pointer(word(bin + format_.header + format_.word).value_or(0));
  list.previous = list.following = bin;
  if (follow_unsorted_forward(arena, index, list)) return;
  // What lies behind the damage is reached from the other end.
  Address following = list.following;
  RingGuard ring;
  for (uint64_t steps = 0; steps < most_chunks_; ++steps) {
    const auto back = word(following + format_.header + format_.word);
    const Address chunk = format_.pointer(back.value_or(0));
    if (chunk == bin || chunk == list.previous || !size_in_heap(chunk, index)) return;
    const auto forward = word(chunk + format_.header);
    if (!forward || format_.pointer(*forward) != following || ring.closes(chunk)) return;
    listed_.add(chunk, ChunkState::kUnsorted);
    following = chunk;
  }
}

void FreeLists::follow_tcache(ThreadCache& thread, uint64_t per_bin) {
  const auto& tcache = layout_.tcache;
  for (unsigned bin = 0; bin < tcache.bins; ++bin) {
    const Address head_at = thread.tcache + tcache.entries + bin * layout_.word;
    const auto head = word(head_at);
    uint64_t count = 0;
    const auto count_bytes = std::as_writable_bytes(std::span(&count, 1)).first(tcache.count_size);
    const bool is_readable = head && cache_.read(thread.tcache + bin * tcache.count_size,
                                                 count_bytes) == tcache.count_size;
    if (!is_readable) {
      log_.add(head_at, thread.arena, -1,
               "the tcache of thread " + std::to_string(thread.tid) + " cannot be read");
      return;
    }
    bool is_count_known = true;
    if (tcache.counts_down) {  // free slots; never more than mp_.tcache_count
      is_count_known = per_bin != 0 && count <= per_bin;
      count = per_bin - count;
    }
    if (*head == 0 && (count == 0 || !is_count_known)) continue;
    const auto walked = follow_tcache_bin(thread, bin, format_.pointer(*head));
    if (walked && is_count_known && *walked != count) {
      log_.add(head_at, thread.arena, -1,
               "bin " + std::to_string(bin) + " of the tcache of thread " +
                   std::to_string(thread.tid) + " counts " + std::to_string(count) +
                   " chunks and lists " + std::to_string(*walked));
    }
  }
}

// Gives the number of chunks; nothing when the list is damaged, which is then in the log.
std::optional<uint64_t> FreeLists::follow_tcache_bin(ThreadCache& thread, unsigned bin,
                                                     Address head) {
  const uint64_t smallest = format_.min_size + std::min(bin, kSmallTcacheBins) * format_.alignment;
  Address from = thread.tcache + layout_.tcache.entries + bin * layout_.word;
  Address memory = head;  // what malloc returned
  const auto damage = [&](const std::string& what) {
    log_.add(from, thread.arena, -1,
             "bin " + std::to_string(bin) + " of the tcache of thread " +
                 std::to_string(thread.tid) + " " + what);
    return std::nullopt;
  };
  RingGuard ring;
  uint64_t steps = 0;
  for (; !memory.is_null(); ++steps) {
    const Address chunk = memory - format_.header;
    auto size = size_in_heap(chunk, -1);
    bool is_mmapped = false;
    if (!size && layout_.mmapped_size_less_header && bin >= kSmallTcacheBins &&
        format_.is_aligned(chunk)) {
      size = word(chunk + format_.word);
      is_mmapped = size && (*size & ChunkFormat::kFlags) == ChunkFormat::kMmapped;
      if (!is_mmapped) size.reset();
    }
    if (!size) return damage("links to " + hex(memory) + ", which is in no heap");
    const uint64_t bytes = format_.size_of(*size);
    if (bin < kSmallTcacheBins ? bytes != smallest : bytes < smallest) {
      return damage("links to " + hex(memory) + ", a chunk of size " + hex(bytes));
    }
    if (ring.closes(memory) || steps > kMostInTcacheBin) return damage("is a ring");
    if (is_mmapped) {
      if (mmapped_.size() < kMostMmapped) mmapped_.push_back(chunk);
    } else {
      listed_.add(chunk, ChunkState::kTcache);
    }
    ++thread.chunks;
    thread.bytes += bytes;
    from = memory;
    const auto next = word(from);
    if (!next) return damage("has a link that cannot be read");
    memory = reveal(from, *next);
  }
  return steps;
}

}  // namespace heapsnap
