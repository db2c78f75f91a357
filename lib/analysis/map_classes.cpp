#include "analysis/map_classes.h"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>
#include <string>
#include <string_view>

#include "analysis/block_ages.h"
#include "analysis/block_facts.h"
#include "analysis/garbage.h"
#include "analysis/leak_census.h"
#include "analysis/packed_references.h"
#include "base/error.h"

namespace heapsnap {

namespace {

using ClassKind = MapClass::Kind;

constexpr size_t place_of(ChunkState state) {
  return static_cast<size_t>(state);
}
constexpr size_t place_of(PageState state) {
  return static_cast<size_t>(state);
}

// Where classes by size begin, besides 0: powers of two, so that each class of a report is in one.
// The last but one is malloc's first threshold for mappings of their own.
constexpr std::array<uint64_t, 7> kSizeBorders = {64,        256,        1024,       4096,
                                                  16 * 1024, 128 * 1024, 1024 * 1024};

ClassKind class_kind_of(ChunkState state) {
  switch (state) {
    case ChunkState::kUsed:
    case ChunkState::kMmapped: return ClassKind::kInUse;
    case ChunkState::kTcache: return ClassKind::kTcache;
    case ChunkState::kFastbin: return ClassKind::kFastbin;
    case ChunkState::kUnsorted:
    case ChunkState::kSmallbin:
    case ChunkState::kLargebin: return ClassKind::kBins;
    case ChunkState::kTop: return ClassKind::kTop;
    case ChunkState::kFence: return ClassKind::kFence;
    case ChunkState::kUnknown: break;
  }
  return ClassKind::kUnwalked;
}

// Calls visit(state, size of the chunk, stack) for each chunk in use, in the order of block
// numbers.
template <typename Visit>
class LiveChunks final : public ChunkSink {
 public:
  explicit LiveChunks(Visit visit) : visit_(visit) {}
  void on_batch(const ChunkBatch& batch) override {
    for (size_t i = 0; i < batch.sizes.size(); ++i) {
      if (is_live(batch.states[i])) {
        visit_(batch.sizes[i], batch.stacks.empty() ? 0 : batch.stacks[i]);
      }
    }
  }
  void on_mmapped(const MmappedChunk& chunk) override {
    if (is_live(chunk.state)) visit_(chunk.total, chunk.stack);
  }

 private:
  Visit visit_;
};

template <typename Visit>
void each_live_chunk(const SnapshotStreams& streams, Visit visit) {
  LiveChunks<Visit> sink(visit);
  streams.read_chunks(sink);
}

// The indices of the largest values, largest first, without `except` and those of 0.
std::vector<uint32_t> largest_of(const std::vector<uint64_t>& values, size_t most,
                                 uint32_t except) {
  std::vector<uint32_t> order;
  for (uint32_t i = 0; i < values.size(); ++i) {
    if (values[i] != 0 && i != except) order.push_back(i);
  }
  most = std::min(most, order.size());
  std::partial_sort(order.begin(), order.begin() + static_cast<ptrdiff_t>(most), order.end(),
                    [&](uint32_t a, uint32_t b) {
                      return values[a] != values[b] ? values[a] > values[b] : a < b;
                    });
  order.resize(most);
  return order;
}

}  // namespace

uint8_t MapClasses::add(const MapClass& each) {
  const auto index = static_cast<uint8_t>(list_.size());
  list_.push_back(each);
  in_page_[index].fill(index);
  return index;
}

void MapClasses::add_free() {
  const uint8_t free = add(Kind::kFree);
  const uint8_t elsewhere = add(Kind::kFreeElsewhere);
  in_page_[free][place_of(PageState::kAbsent)] = elsewhere;
  in_page_[free][place_of(PageState::kSwapped)] = elsewhere;
  by_state_.fill(free);
  by_state_[place_of(ChunkState::kFence)] = add(Kind::kFence);
  by_state_[place_of(ChunkState::kUnknown)] = add(Kind::kUnwalked);
}

MapClasses MapClasses::by_state() {
  MapClasses classes;
  std::map<Kind, uint8_t> of_kind;
  for (const Kind kind : {Kind::kInUse, Kind::kTcache, Kind::kFastbin, Kind::kBins, Kind::kTop,
                          Kind::kFence, Kind::kUnwalked}) {
    of_kind[kind] = classes.add(kind);
  }
  for (size_t state = 0; state < classes.by_state_.size(); ++state) {
    classes.by_state_[state] = of_kind.at(class_kind_of(static_cast<ChunkState>(state)));
  }
  const uint8_t swapped = classes.add(Kind::kSwapped);
  const uint8_t absent = classes.add(Kind::kAbsent);
  for (auto& by_page : classes.in_page_) {
    by_page[place_of(PageState::kSwapped)] = swapped;
    by_page[place_of(PageState::kAbsent)] = absent;
  }
  return classes;
}

MapClasses MapClasses::by_residency() {
  MapClasses classes;
  classes.in_use_ = classes.add(Kind::kInUse);
  const uint8_t used_huge = classes.add(Kind::kInUseHuge);
  const uint8_t free = classes.add(Kind::kFree);
  const uint8_t free_huge = classes.add(Kind::kFreeHuge);
  const uint8_t swapped = classes.add(Kind::kSwapped);
  const uint8_t absent = classes.add(Kind::kAbsent);
  const uint8_t unknown = classes.add(Kind::kUnknownPages);
  classes.by_state_.fill(free);
  for (const ChunkState state : {ChunkState::kFence, ChunkState::kUnknown}) {
    classes.by_state_[place_of(state)] = classes.in_use_;
  }
  for (auto& by_page : classes.in_page_) {
    by_page[place_of(PageState::kSwapped)] = swapped;
    by_page[place_of(PageState::kAbsent)] = absent;
    by_page[place_of(PageState::kUnknown)] = unknown;
  }
  classes.in_page_[classes.in_use_][place_of(PageState::kResidentHuge)] = used_huge;
  classes.in_page_[free][place_of(PageState::kResidentHuge)] = free_huge;
  return classes;
}

MapClasses MapClasses::by_size() {
  MapClasses classes;
  uint64_t begin = 0;
  for (size_t i = 0; i <= kSizeBorders.size(); ++i) {
    const uint64_t end = i < kSizeBorders.size() ? kSizeBorders[i] : 0;
    classes.add(MapClass{Kind::kSize, begin, end, 0});
    begin = end;
  }
  for (unsigned width = 0; width <= 64; ++width) {
    const uint64_t smallest = width == 0 ? 0 : uint64_t{1} << (width - 1);
    const auto border = std::upper_bound(kSizeBorders.begin(), kSizeBorders.end(), smallest);
    classes.by_size_.push_back(static_cast<uint8_t>(border - kSizeBorders.begin()));
  }
  classes.add_free();
  return classes;
}

uint8_t MapClasses::class_of_size(uint64_t size) const {
  return by_size_[static_cast<size_t>(std::bit_width(size))];
}

MapClasses MapClasses::by_type(const SnapshotStreams& streams, const ReferenceStreams& references) {
  // Types by name: the first number of each stands for all.
  std::vector<TypeNumber> first_of_name(references.types.size());
  std::map<std::string_view, TypeNumber> by_name;
  for (TypeNumber type = 0; type < references.types.size(); ++type) {
    first_of_name[type] =
        type == 0 ? 0 : by_name.emplace(references.types[type].name, type).first->second;
  }
  const BlockNumber blocks = count_blocks(streams);
  const LargeArray<TypeNumber> types = read_types(references, blocks);
  std::vector<uint64_t> bytes(std::max<size_t>(references.types.size(), 1));
  BlockNumber block = 0;
  each_live_chunk(streams, [&](uint64_t size, uint32_t /*stack*/) {
    const TypeNumber type = types[block++];
    if (type < first_of_name.size()) bytes[first_of_name[type]] += size;
  });

  MapClasses classes;
  std::vector<uint8_t> of_type(bytes.size(), kRanked);
  for (const TypeNumber type : largest_of(bytes, kRanked, 0)) {
    of_type[type] = classes.add(MapClass{Kind::kType, 0, 0, type});
  }
  const uint8_t others = classes.add(Kind::kOtherTypes);
  const uint8_t unknown = classes.add(Kind::kUnknownType);
  std::replace(of_type.begin(), of_type.end(), static_cast<uint8_t>(kRanked), others);
  of_type[0] = classes.in_use_ = unknown;
  classes.add_free();
  classes.by_block_ = LargeArray<uint8_t>(blocks);
  for (BlockNumber i = 0; i < blocks; ++i) {
    classes.by_block_[i] =
        types[i] < first_of_name.size() ? of_type[first_of_name[types[i]]] : unknown;
  }
  return classes;
}

MapClasses MapClasses::by_leak(const SnapshotStreams& streams, const ReferenceStreams& references) {
  MapClasses classes;
  classes.in_use_ = classes.add(Kind::kInUse);
  const uint8_t leaked = classes.add(Kind::kLeaked);
  classes.add_free();
  const BlockNumber blocks = count_blocks(streams);
  classes.by_block_ = LargeArray<uint8_t>(blocks);
  if (has_collector(streams)) {
    // What is garbage of a runtime is not leaked, which the packed graph does not tell.
    const LeakCensus census = take_leak_census(streams, references);
    size_t next = 0;
    each_snapshot_block(streams, [&](const SnapshotBlock& block) {
      const bool is_leaked =
          next < census.blocks.size() && census.blocks[next].address == block.address;
      if (is_leaked) ++next;
      classes.by_block_[block.number] = is_leaked ? leaked : classes.in_use_;
    });
    return classes;
  }
  Tally in_use;
  const BlockSet alive = reachable_in_few_bytes(
      references, blocks, held_from_outside(streams, references, blocks, in_use));
  for (BlockNumber block = 0; block < blocks; ++block) {
    classes.by_block_[block] = alive.contains(block) ? classes.in_use_ : leaked;
  }
  return classes;
}

MapClasses MapClasses::by_stack(const SnapshotStreams& streams, size_t stacks) {
  std::vector<uint64_t> bytes(std::max<size_t>(stacks, 1));
  each_live_chunk(streams, [&](uint64_t size, uint32_t stack) {
    bytes[stack < bytes.size() ? stack : 0] += size;
  });
  MapClasses classes;
  classes.by_stack_.assign(bytes.size(), kRanked);
  for (const uint32_t stack : largest_of(bytes, kRanked, 0)) {
    classes.by_stack_[stack] = classes.add(MapClass{Kind::kStack, 0, 0, stack});
  }
  const uint8_t others = classes.add(Kind::kOtherStacks);
  std::replace(classes.by_stack_.begin(), classes.by_stack_.end(), static_cast<uint8_t>(kRanked),
               others);
  classes.by_stack_[0] = classes.add(Kind::kNoStack);
  classes.add_free();
  return classes;
}

MapClasses MapClasses::by_age(std::span<const SnapshotStreams> snapshots) {
  MapClasses classes;
  for (uint32_t age = 0; age < snapshots.size(); ++age) {
    classes.in_use_ = classes.add(MapClass{Kind::kAge, 0, 0, age});
  }
  classes.add_free();
  classes.by_block_ = block_ages(snapshots);
  return classes;
}

}  // namespace heapsnap
