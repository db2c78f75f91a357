#include "heap/discovery/arena_scan.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <span>
#include <vector>

#include "base/alteration.h"
#include "base/page.h"
#include "heap/chunk_format.h"
#include "heap/discovery/arena_verifier.h"

namespace heapsnap {

namespace {

constexpr uint64_t kPiece = 1 << 20;
// An arena with fewer empty bins of its 127 than this is not found by scanning.
constexpr unsigned kFewestEmptyBins = 8;
// Bounds the work that data made to look like bins can cause; an arena takes some hundred.
constexpr unsigned kMostCandidates = 1 << 14;
constexpr unsigned kMostRingSteps = 1 << 16;

class ArenaScan {
 public:
  ArenaScan(Target& target, std::span<const MallocLayout> layouts)
      : target_(target), layouts_(layouts), format_(layouts.front()), word_(format_.word) {}

  // A pair on the border of two pieces is missed; an arena has others.
  void scan(AddressRange range) {
    Address at = range.begin.align_up(word_);
    while (at < range.end && budget_ > 0) {
      check_end();
      const AddressRange readable = target_.memory().next_readable({at, range.end});
      if (readable.is_empty()) return;
      at = std::max(at, readable.begin.align_down(kPage));
      const uint64_t wanted = std::min({range.end - at, kPiece, budget_});
      buffer_ = std::span(piece_).first(wanted);
      const uint64_t got = target_.memory().read(at, buffer_) & ~uint64_t{word_ - 1};
      buffer_ = buffer_.first(got);
      budget_ -= std::min(budget_, std::max(got, kPage));
      find_pairs(at);
      check_candidates();
      // A short read ends at a hole: go on behind the page that cannot be read.
      at = got == wanted ? at + got : (at + got).align_down(kPage) + kPage;
    }
  }

  std::vector<ScannedArena> found() && { return std::move(found_); }

 private:
  uint64_t word_in_buffer(uint64_t offset) const {
    uint64_t value = 0;
    std::memcpy(&value, buffer_.data() + offset, word_);
    return value & format_.pointer_mask;
  }

  // Addresses of words that hold the address 2W below, and the next word too.
  void find_pairs(Address begin) {
    // Pairs further back than an arena is long are done with.
    const uint64_t reach = 2ULL * word_ * kBins;
    std::erase_if(pairs_, [&](Address pair) { return pair + reach < begin; });
    for (uint64_t offset = 0; offset + 2 * word_ <= buffer_.size(); offset += word_) {
      const uint64_t self = (begin + offset - format_.header).value();
      if (word_in_buffer(offset) == self && word_in_buffer(offset + word_) == self) {
        pairs_.push_back(begin + offset);
      }
    }
  }

  // Whether bins that begin at `bins` have pairs enough.
  bool has_empty_bins(Address bins) const {
    const Address end = bins + 2ULL * word_ * kBins;
    auto pair = std::lower_bound(pairs_.begin(), pairs_.end(), bins);
    unsigned empty = 0;
    for (; pair != pairs_.end() && *pair < end && empty < kFewestEmptyBins; ++pair) {
      if ((*pair - bins) % (2 * word_) == 0) ++empty;
    }
    return empty >= kFewestEmptyBins;
  }

  void check_candidates() {
    const uint64_t stride = 2 * word_;
    for (const Address pair : pairs_) {
      // The first of a run of empty bins: how many bins lie before it is not known.
      if (std::binary_search(pairs_.begin(), pairs_.end(), pair - stride)) continue;
      for (unsigned before = 0; before < kBins && candidates_ < kMostCandidates; ++before) {
        const Address bins = pair - stride * before;
        if (!has_empty_bins(bins)) break;
        check(bins);
      }
    }
  }

  void check(Address bins) {
    if (!checked_.insert(bins).second) return;
    ++candidates_;
    const MallocLayout::State* last = nullptr;
    for (const MallocLayout& layout : layouts_) {
      // Neighbours in the list often differ in other structs only.
      if (last != nullptr && *last == layout.state) continue;
      last = &layout.state;
      const Address arena = bins - layout.state.bins;
      if (!arena_ring_closes(target_.memory(), layout, arena, ring_steps_)) continue;
      const ArenaCheck result = check_arena(target_, layout, arena);
      if (!is_acceptable(result, DiscoveryStrategy::kStructuralScan)) continue;
      found_.push_back({arena, layout, result.system_mem});
      return;
    }
  }

  Target& target_;
  std::span<const MallocLayout> layouts_;
  ChunkFormat format_;
  unsigned word_;
  uint64_t budget_ = kMostScanned;
  std::vector<std::byte> piece_{kPiece};
  std::span<std::byte> buffer_;  // what of it was read
  std::vector<Address> pairs_;   // ascending
  std::set<Address> checked_;
  unsigned candidates_ = 0;
  unsigned ring_steps_ = kMostRingSteps;
  std::vector<ScannedArena> found_;
};

}  // namespace

std::vector<ScannedArena> scan_for_arenas(Target& target, std::span<const AddressRange> ranges,
                                          std::span<const MallocLayout> layouts) {
  if (layouts.empty()) return {};
  ArenaScan scan(target, layouts);
  for (const AddressRange& range : ranges) scan.scan(range);
  return std::move(scan).found();
}

}  // namespace heapsnap
