#include "heap/discovery/arena_verifier.h"

#include <fmt/format.h>

#include "heap/chunk_format.h"
#include "heap/struct_bytes.h"
#include "target/page_cache.h"

namespace heapsnap {

namespace {

class ArenaChecker {
 public:
  ArenaChecker(Target& target, const MallocLayout& layout, Address arena)
      : space_(target.address_space()),
        memory_(target.memory()),
        layout_(layout),
        format_(layout),
        arena_(arena),
        pages_(target.memory(), 64),
        bytes_(layout.state.size) {}

  ArenaCheck check() {
    ArenaCheck result;
    const Mapping* mapping = space_.find(arena_);
    if (mapping == nullptr || !mapping->writable || !arena_.is_aligned(layout_.word)) return result;
    if (pages_.read(arena_, bytes_) < bytes_.size()) return result;
    result.is_readable = true;
    result.system_mem = state().word_at(layout_.state.system_mem);
    unsigned steps = kMostArenas;
    result.ring_closes = arena_ring_closes(memory_, layout_, arena_, steps);
    result.bad_bins = count_bad_bins();
    result.is_used = !bins_are_zero();
    check_top(result);
    return result;
  }

 private:
  StructBytes state() const { return {bytes_, layout_.word}; }

  // Bins are the fd and bk of chunks that are not there: bin_at (m, i) in malloc.c.
  Address bin_chunk(unsigned index) const {
    return arena_ + layout_.state.bins + 2ULL * layout_.word * index - format_.header;
  }

  bool links_back(Address chunk, unsigned link_word, Address bin) {
    const auto link = pages_.word(chunk + link_word * uint64_t{layout_.word}, layout_.word);
    return link && format_.pointer(*link) == bin;
  }

  unsigned count_bad_bins() {
    constexpr unsigned kFd = 2;  // words from a chunk's begin
    constexpr unsigned kBk = 3;
    unsigned bad = 0;
    for (unsigned index = 0; index < kBins; ++index) {
      const uint64_t place = layout_.state.bins + 2ULL * layout_.word * index;
      const Address fd = format_.pointer(state().word_at(place));
      const Address bk = format_.pointer(state().word_at(place + layout_.word));
      const Address bin = bin_chunk(index);
      if (fd == bin && bk == bin) continue;
      const bool is_linked =
          fd != bin && bk != bin && links_back(fd, kBk, bin) && links_back(bk, kFd, bin);
      if (!is_linked) ++bad;
    }
    return bad;
  }

  bool bins_are_zero() const {
    return StructBytes(std::span(bytes_).subspan(layout_.state.bins, 2ULL * layout_.word * kBins),
                       layout_.word)
        .is_all_zero();
  }

  void check_top(ArenaCheck& result) {
    const auto& offsets = layout_.state;
    const uint64_t system_mem = result.system_mem;
    const uint64_t max_system_mem = state().word_at(offsets.max_system_mem);
    const bool is_ordered = system_mem <= max_system_mem;
    const Address top = format_.pointer(state().word_at(offsets.top));
    // Nothing allocated yet: top is null, or the unsorted bin since malloc_init_state ran.
    if (top.is_null() || top == bin_chunk(0)) {
      result.top_is_sane = system_mem == 0;
      result.counters_are_sane = is_ordered && system_mem == 0;
      return;
    }
    const auto size_field = pages_.word(top + layout_.word, layout_.word);
    if (!size_field || !format_.is_aligned(top)) return;
    const uint64_t size = format_.size_of(*size_field);
    result.top_is_sane = size >= format_.min_size && space_.writable_run(top).contains(top, size);
    result.counters_are_sane = is_ordered && size <= system_mem;
  }

  const AddressSpace& space_;
  MemoryReader& memory_;
  const MallocLayout& layout_;
  ChunkFormat format_;
  Address arena_;
  PageCache pages_;
  std::vector<std::byte> bytes_;
};

}  // namespace

std::vector<std::string> ArenaCheck::damage() const {
  std::vector<std::string> found;
  if (!ring_closes) found.push_back("the ring of arenas does not lead back to main_arena");
  if (is_used && bad_bins > 0) {
    found.push_back(fmt::format("{} of {} bins of main_arena are not linked", bad_bins, kBins));
  }
  if (!top_is_sane) found.push_back("top of main_arena is not a chunk in writable memory");
  if (!counters_are_sane) {
    found.push_back(
        fmt::format("system_mem of main_arena, {} bytes, does not fit its top", system_mem));
  }
  return found;
}

bool arena_ring_closes(MemoryReader& memory, const MallocLayout& layout, Address first,
                       unsigned& steps) {
  const ChunkFormat format(layout);
  for (Address arena = first; steps > 0; --steps) {
    const auto next = read_word(memory, arena + layout.state.next, layout.word);
    if (!next || *next == 0) return false;
    arena = format.pointer(*next);
    if (arena == first) return true;
    if (!arena.is_aligned(layout.word)) return false;
  }
  return false;
}

ArenaCheck check_arena(Target& target, const MallocLayout& layout, Address arena) {
  return ArenaChecker(target, layout, arena).check();
}

bool is_acceptable(const ArenaCheck& check, DiscoveryStrategy strategy) {
  if (!check.is_readable) return false;
  const bool bins_are_good = check.is_used && check.bad_bins <= kTolerableBadBins;
  switch (strategy) {
    case DiscoveryStrategy::kNone: return false;
    case DiscoveryStrategy::kDebugSymbol: return check.ring_closes || bins_are_good;
    case DiscoveryStrategy::kRelocation:
    case DiscoveryStrategy::kDisassembly:
      if (!check.ring_closes) {
        return bins_are_good && check.top_is_sane && check.counters_are_sane;
      }
      return bins_are_good || (!check.is_used && check.counters_are_sane);
    case DiscoveryStrategy::kStructuralScan:
      return check.ring_closes && bins_are_good && check.top_is_sane && check.counters_are_sane;
  }
  return false;
}

}  // namespace heapsnap
