// What a picture of the heap tells apart by colour: each byte of the heap is of one class.
//
//   by state       in use | free in bins | free in top chunks | … | in swap | absent
//   by residency   in use | free, each in small and in huge pages | in swap | absent
//   by size        in use, up to 63 bytes | 64 to 255 | … | free | free, not in memory
//   by type        Session | std::string characters | … | other types | unknown type | free | …
//   by stack       stack 17 | stack 4 | … | other stacks | no stack known | free | …
//   by leak        in use | leaked | free | …
//   by age         there by the first snapshot | first seen in the second | in the third | …
//
// A chunk is of a class by its state, its size, the stack or the type of its block; where pages
// matter, the state of the page that a byte lies in decides in the end.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "analysis/reference_streams.h"
#include "analysis/snapshot_streams.h"
#include "base/large_memory.h"
#include "heap/chunk.h"
#include "references/reference.h"
#include "target/page_residency.h"

namespace heapsnap {

struct MapClass {
  enum class Kind : uint8_t {
    kInUse,
    kTcache,
    kFastbin,
    kBins,  // unsorted, small and large ones
    kTop,
    kFence,
    kUnwalked,  // of a heap, but the walk could not tell what
    kInUseHuge,
    kFree,  // of any kind
    kFreeHuge,
    kSwapped,
    kAbsent,
    kUnknownPages,   // nobody said where the page is
    kFreeElsewhere,  // free, and in no memory
    kSize,           // in use, with begin <= size < end
    kType,
    kOtherTypes,
    kUnknownType,
    kStack,
    kOtherStacks,
    kNoStack,
    kLeaked,
    kAge,  // in use, with the age that block_ages.h gives it
  };
  Kind kind = Kind::kInUse;
  uint64_t begin = 0;   // of kSize
  uint64_t end = 0;     // the same; 0: no upper bound
  uint32_t number = 0;  // of kType: a TypeNumber; of kStack: a stack id; of kAge: it
  bool operator==(const MapClass&) const = default;
};

class MapClasses {
 public:
  static constexpr size_t kMost = 16;
  static constexpr size_t kRanked = 7;  // types or stacks that get a class of their own
  static constexpr size_t kMostAges = 8;

  static MapClasses by_state();
  static MapClasses by_residency();
  static MapClasses by_size();
  // Those with most bytes are classes; types of the same name are one. Throw Error{kBadInput} when
  // blocks and references do not fit together. Take a byte a block; meanwhile by_type() takes five,
  // by_leak() a packed graph (packed_references.h).
  static MapClasses by_type(const SnapshotStreams& streams, const ReferenceStreams& references);
  static MapClasses by_leak(const SnapshotStreams& streams, const ReferenceStreams& references);
  // `stacks`: how many stack ids there are. Ids past them are of no stack.
  static MapClasses by_stack(const SnapshotStreams& streams, size_t stacks);
  // Of the last of these, up to kMostAges, as block_ages() takes them.
  static MapClasses by_age(std::span<const SnapshotStreams> snapshots);

  std::span<const MapClass> list() const { return list_; }

  // Indices into list(): of a chunk, and of its bytes in a page of that state. `block` counts the
  // chunks in use, in the order of the stream.
  uint8_t of_chunk(ChunkState state, uint64_t size, uint32_t stack, uint64_t block) const {
    if (!is_live(state)) return by_state_[static_cast<size_t>(state)];
    if (!by_block_.empty()) return block < by_block_.size() ? by_block_[block] : in_use_;
    if (!by_stack_.empty()) return by_stack_[stack < by_stack_.size() ? stack : 0];
    return by_size_.empty() ? in_use_ : class_of_size(size);
  }
  uint8_t in_page(uint8_t of_chunk, PageState page) const {
    return in_page_[of_chunk][static_cast<size_t>(page)];
  }

 private:
  using Kind = MapClass::Kind;
  static constexpr size_t kPageStates = 6;

  uint8_t add(const MapClass& each);
  uint8_t add(Kind kind) { return add(MapClass{kind}); }
  // The classes of chunks that are not in use, where only those that are in use are told apart.
  void add_free();
  uint8_t class_of_size(uint64_t size) const;

  std::vector<MapClass> list_;
  uint8_t in_use_ = 0;
  std::array<uint8_t, kChunkStateCount> by_state_{};
  std::array<std::array<uint8_t, kPageStates>, kMost> in_page_{};
  std::vector<uint8_t> by_size_;   // by the width of the size in bits
  std::vector<uint8_t> by_stack_;  // by stack id
  LargeArray<uint8_t> by_block_;   // by number
};

}  // namespace heapsnap
