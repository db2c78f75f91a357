#include "heap/walk/free_lists.h"

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

// One list on its way: a fastbin, or the unsorted list.
struct FreeLists::BinList {
  ListScan scan;
  ChunkState state = ChunkState::kFastbin;
  unsigned bin = 0;  // of a fastbin
  int32_t arena = 0;
  bool is_of_main_arena = false;
  RingGuard ring;
  uint64_t steps = 0;
  bool is_damaged = false;

  std::string name() const {
    return state == ChunkState::kFastbin ? "fastbin " + std::to_string(bin) : "the unsorted list";
  }
};

FreeLists::FreeLists(Target& target, HeapPasses* passes, PageCache& cache,
                     const MallocLayout& layout, const HeapAreas& areas, SortedAddresses& listed,
                     CorruptionLog& log)
    : target_(target),
      passes_(passes),
      cache_(cache),
      layout_(layout),
      format_(layout),
      areas_(areas),
      listed_(listed),
      log_(log),
      most_chunks_(areas.bytes() / format_.min_size),
      most_in_tcaches_(layout.mmapped_size_less_header ? kMostMmapped : 0) {
  for (const HeapArea& area : areas.all()) {
    AddressRange rest = area.system;
    while (!rest.is_empty()) {
      const AddressRange readable = cache_.next_readable(rest);
      most_in_tcaches_ += readable.size() / format_.min_size;
      rest.begin = readable.is_empty() ? rest.end : readable.end;
    }
  }
}

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
  std::vector<BinList> lists = bin_lists(arena, index);
  for (BinList& list : lists) {
    while (list.steps < kShortList && step(list)) {
    }
  }
  pass_over(lists);
  for (BinList& list : lists) {
    while (step(list)) {
    }
  }
  if (lists.back().is_damaged) follow_unsorted_back(arena, lists.back());
}

std::vector<FreeLists::BinList> FreeLists::bin_lists(const Arena& arena, int32_t index) {
  const auto pointer_at = [&](Address at) { return format_.pointer(word(at).value_or(0)); };
  BinList list;
  list.arena = index;
  list.is_of_main_arena = arena.is_main;
  std::vector<BinList> lists;
  list.scan.is_protected = layout_.safe_linking;
  for (list.bin = 0; list.bin < layout_.state.fastbin_count; ++list.bin) {
    const Address head = arena.address + layout_.state.fastbins + list.bin * layout_.word;
    list.scan.chunk = pointer_at(head);
    list.scan.previous = head - format_.header;
    // fastbin_index(): bins are two words apart in size, whatever the alignment.
    list.scan.size = (list.bin + 2) * format_.header;
    lists.push_back(list);
  }
  // fd of the last chunk is the bin, whose "chunk" is two words before its own fd and bk.
  const Address bin = arena.address + layout_.state.bins - format_.header;
  list.state = ChunkState::kUnsorted;
  list.scan = {.chunk = pointer_at(bin + format_.header),
               .previous = bin,
               .tail = pointer_at(bin + format_.header + format_.word),
               .following = bin};
  lists.push_back(list);
  return lists;
}

bool FreeLists::step(BinList& list) {
  if (list.is_damaged || list.scan.is_done()) return false;
  const Address chunk = list.scan.chunk;
  const auto next = list.state == ChunkState::kFastbin ? fastbin_link(list) : unsorted_link(list);
  list.is_damaged = !next.has_value();
  if (list.is_damaged) return false;
  if (list.ring.closes(chunk) || list.steps >= most_chunks_) {
    log_.add(chunk, list.arena, -1, list.name() + " is circular");
    list.is_damaged = true;
    return false;
  }
  listed_.add(chunk, list.state);
  ++list.steps;
  list.scan.previous = chunk;
  list.scan.chunk = *next;
  return true;
}

std::optional<Address> FreeLists::fastbin_link(const BinList& list) {
  const Address chunk = list.scan.chunk;
  // What has a link there is a free chunk, by the walk that gathered them.
  const FreeLinks* const links = links_of(list);
  const auto known = links != nullptr ? links->find(chunk) : std::nullopt;
  if (known && known->fast_size == list.scan.size) return known->forward;
  const auto size = size_in_heap(chunk, list.arena);
  if (!size || format_.size_of(*size) != list.scan.size) {
    log_.add(list.scan.previous + format_.header, list.arena, -1,
             list.name() + " links to " + hex(chunk) +
                 (size ? ", a chunk of size " + hex(format_.size_of(*size))
                       : std::string(", which is not a chunk of this arena")));
    return std::nullopt;
  }
  const Address link = chunk + format_.header;
  const auto next = word(link);
  if (!next) log_.add(link, list.arena, -1, "a fastbin's link cannot be read");
  return next ? reveal(link, *next) : Address();
}

std::optional<Address> FreeLists::unsorted_link(const BinList& list) {
  const Address chunk = list.scan.chunk;
  const FreeLinks* const links = links_of(list);
  const auto known = links != nullptr ? links->find(chunk) : std::nullopt;
  if (known && known->fast_size == 0) return known->forward;
  const auto back =
      size_in_heap(chunk, list.arena) ? word(chunk + format_.header + format_.word) : std::nullopt;
  if (!back || format_.pointer(*back) != list.scan.previous) {
    log_.add(list.scan.previous + format_.header, list.arena, -1,
             list.name() + " links to " + hex(chunk) +
                 (back ? ", whose bk is " + hex(*back)
                       : std::string(", which is not a chunk of this arena")));
    return std::nullopt;
  }
  return format_.pointer(word(chunk + format_.header).value_or(0));
}

void FreeLists::pass_over(std::vector<BinList>& lists) {
  const bool has_plain_pointers = format_.word == 8 && format_.pointer_mask == ~0ULL;
  if (passes_ == nullptr || !has_plain_pointers) return;
  std::vector<BinList*> going_on;
  for (BinList& list : lists) {
    if (!list.is_damaged && !list.scan.is_done()) going_on.push_back(&list);
  }
  while (!going_on.empty()) {
    std::vector<ListScan> scans;
    for (const BinList* list : going_on) {
      if (scans.size() < HeapPasses::kMostLists) scans.push_back(list->scan);
    }
    const auto told = passes_->follow(scans, heaps_);
    if (told.empty()) return;
    for (size_t i = 0; i < told.size(); ++i) {
      if (!take(*going_on[i], scans[i], told[i])) going_on[i] = nullptr;
    }
    std::erase(going_on, nullptr);
  }
}

bool FreeLists::take(BinList& list, const ListScan& scan, const ListedChunks& told) {
  Address previous = list.scan.previous;
  list.scan = scan;
  list.steps += told.backward.size();
  for (const uint64_t address : told.backward) listed_.add(Address(address), list.state);
  for (const uint64_t address : told.forward) {
    const Address chunk(address);
    if (list.ring.closes(chunk) || list.steps >= most_chunks_) {
      list.scan.chunk = chunk;  // step() will meet the ring again
      list.scan.previous = previous;
      return false;
    }
    listed_.add(chunk, list.state);
    previous = chunk;
    ++list.steps;
  }
  return !told.forward.empty() && !scan.is_done();
}

void FreeLists::follow_unsorted_back(const Arena& arena, const BinList& list) {
  const Address bin = arena.address + layout_.state.bins - format_.header;
  Address following = list.scan.following;
  RingGuard ring;
  for (uint64_t steps = 0; steps < most_chunks_; ++steps) {
    const auto back = word(following + format_.header + format_.word);
    const Address chunk = format_.pointer(back.value_or(0));
    if (chunk == bin || chunk == list.scan.previous || !size_in_heap(chunk, list.arena)) return;
    const auto forward = word(chunk + format_.header);
    if (!forward || format_.pointer(*forward) != following || ring.closes(chunk)) return;
    listed_.add(chunk, ChunkState::kUnsorted);
    following = chunk;
  }
}

const FreeLinks* FreeLists::links_of(const BinList& list) {
  const bool is_long = list.steps >= kShortList;
  if (!links_ && is_long && cache_.pages_read() > enough_pages_) {
    links_ = std::make_unique<FreeLinks>(target_, cache_, layout_, areas_, list.arena,
                                         list.is_of_main_arena, list.state == ChunkState::kFastbin);
  }
  return links_.get();
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
                   " chunks but lists " + std::to_string(*walked));
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
    if (!size) return damage("links to " + hex(memory) + ", which is not in a heap");
    const uint64_t bytes = format_.size_of(*size);
    if (bin < kSmallTcacheBins ? bytes != smallest : bytes < smallest) {
      return damage("links to " + hex(memory) + ", a chunk of size " + hex(bytes));
    }
    if (ring.closes(memory) || steps > kMostInTcacheBin) return damage("is circular");
    if (in_tcaches_ == most_in_tcaches_) {
      return damage("goes on although the tcaches list as many chunks as fit in the heaps");
    }
    ++in_tcaches_;
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
