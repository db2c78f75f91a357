// The loops of HeapPasses, over memory that can be accessed directly.
//
// They are compiled twice: for memory of this process, and into code that is copied into another
// one (loop_code.cpp). So they call nothing, not even each other, allocate nothing and use no
// constants in memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "heap/in_place/heap_passes.h"

namespace heapsnap {

// Memory of the target, [begin, end), and where it lies: at its address plus `bias`.
struct PlacedMemory {
  uint64_t begin = 0;
  uint64_t end = 0;
  uint64_t bias = 0;

  [[gnu::always_inline]] bool contains(uint64_t address, uint64_t bytes) const {
    return address >= begin && address <= end && end - address >= bytes;
  }
  [[gnu::always_inline]] uint64_t word(uint64_t address) const {
    uint64_t value;
    __builtin_memcpy(&value, reinterpret_cast<const void*>(address + bias), sizeof(value));
    return value;
  }
};

inline constexpr uint64_t kChunkHeader = 16;
inline constexpr uint64_t kSizeFlags = 7;

// Fetches memory ahead of a pass that goes up through it: each size waits for the one before it,
// and each next page for a page walk. By size of the chunk:
//
//   small     the processor fetches line after line by itself; a page ahead it needs a start
//   middling  every line is fetched: that is quicker than a wait for each chunk
//   large     nothing is: the body takes longer to fetch than one wait
class FetchAhead {
 public:
  [[gnu::always_inline]] void go_on(const PlacedMemory& memory, uint64_t at, uint64_t size) {
    if (size <= kSmall) {
      fetch(memory, at + kDistance);
      return;
    }
    if (size > kMiddling) {
      distance_ = kLine;
      return;
    }
    if (fetched_ < at) fetched_ = at;
    if (distance_ < kDistance) distance_ *= 2;
    for (const uint64_t end = at + distance_; fetched_ < end; fetched_ += kLine) {
      fetch(memory, fetched_);
    }
  }

 private:
  static constexpr uint64_t kLine = 64;
  static constexpr uint64_t kSmall = 512;
  static constexpr uint64_t kMiddling = 2048;
  static constexpr uint64_t kDistance = 8192;

  // Harmless past the memory's end.
  [[gnu::always_inline]] static void fetch(const PlacedMemory& memory, uint64_t address) {
    __builtin_prefetch(reinterpret_cast<const void*>(address + memory.bias));
  }

  uint64_t fetched_ = 0;  // middling chunks up to here
  uint64_t distance_ = kLine;
};

// Gives how many answers there are.
inline size_t scan_chunks(ChunkScan& scan, const PlacedMemory& memory, uint32_t* answers,
                          size_t room) {
  uint64_t at = scan.at.value();
  const uint64_t limit = scan.limit.value();
  const uint64_t readable_end = scan.readable_end.value();
  const PlacedMemory readable{memory.begin, readable_end < memory.end ? readable_end : memory.end,
                              memory.bias};
  if (!readable.contains(at, kChunkHeader) || at > limit) return 0;
  const uint64_t last_header = readable.end - kChunkHeader;
  size_t count = 0;
  uint64_t field = memory.word(at + 8);
  FetchAhead ahead;
  for (; count < room; ++count) {
    const uint64_t size = field & ~kSizeFlags;
    if (size < scan.min_size || size > limit - at || size > UINT32_MAX ||
        (field & scan.impossible) != 0) {
      break;
    }
    const uint64_t next = at + size;
    if (next > last_header) break;
    ahead.go_on(memory, next, size);
    const uint64_t next_field = memory.word(next + 8);
    const uint32_t is_free = (next_field & 1) == 0 ? HeapPasses::kFree : 0;
    if (is_free != 0 && memory.word(next) != size) break;
    answers[count] = static_cast<uint32_t>(size) | is_free;
    at = next;
    field = next_field;
  }
  scan.at = Address(at);
  return count;
}

// Memories that are disjoint and in order.
struct PlacedMemories {
  const PlacedMemory* all = nullptr;
  size_t count = 0;

  // Whether a chunk's first words are there to be read. `holder`: where the one before it was, or
  // null; afterwards where this one is.
  [[gnu::always_inline]] bool hold_chunk(uint64_t chunk, const PlacedMemory*& holder) const {
    if (chunk % kChunkHeader != 0 || count == 0) return false;
    if (holder != nullptr && holder->contains(chunk, 2 * kChunkHeader)) return true;
    size_t first = 0;
    size_t behind = count;
    while (behind - first > 1) {
      const size_t middle = first + (behind - first) / 2;
      (all[middle].begin <= chunk ? first : behind) = middle;
    }
    holder = all + first;
    return holder->contains(chunk, 2 * kChunkHeader);
  }
};

// One list of a pass, and the room for its answers.
struct ListPass {
  ListScan scan;
  uint64_t* answers = nullptr;
  uint64_t room = 0;
  uint64_t forward = 0;   // answers from the first place on
  uint64_t backward = 0;  // from the last place down
  const PlacedMemory* chunk_holder = nullptr;
  const PlacedMemory* tail_holder = nullptr;

  bool has_room() const { return forward + backward < room; }
};

// Follows one link from each end. False when that was the last one that can be told.
[[gnu::always_inline]] inline bool follow_link(ListPass& list, const PlacedMemories& memories) {
  ListScan& scan = list.scan;
  const uint64_t chunk = scan.chunk.value();
  if (!list.has_room() || scan.is_done() || !memories.hold_chunk(chunk, list.chunk_holder)) {
    return false;
  }
  uint64_t next = list.chunk_holder->word(chunk + 16);
  if (scan.size != 0) {
    if ((list.chunk_holder->word(chunk + 8) & ~kSizeFlags) != scan.size) return false;
    if (scan.is_protected) next ^= (chunk + 16) >> 12;
  } else if (list.chunk_holder->word(chunk + 24) != scan.previous.value()) {
    return false;
  }
  list.answers[list.forward++] = chunk;
  scan.previous = scan.chunk;
  scan.chunk = Address(next);

  if (scan.tail.is_null() || scan.is_done() || !list.has_room()) return true;
  const uint64_t tail = scan.tail.value();
  if (!memories.hold_chunk(tail, list.tail_holder) ||
      list.tail_holder->word(tail + 16) != scan.following.value()) {
    scan.tail = Address();  // what is odd there is for the way forward to find
    return true;
  }
  list.answers[list.room - ++list.backward] = tail;
  scan.following = scan.tail;
  scan.tail = Address(list.tail_holder->word(tail + 24));
  return true;
}

// All lists in turns, until none goes on: `count` is at most HeapPasses::kMostLists.
inline void follow_lists(ListPass* lists, size_t count, const PlacedMemories& memories) {
  uint32_t going_on = (uint32_t{1} << count) - 1;
  while (going_on != 0) {
    for (size_t i = 0; i < count; ++i) {
      const uint32_t bit = uint32_t{1} << i;
      if ((going_on & bit) != 0 && !follow_link(lists[i], memories)) going_on &= ~bit;
    }
  }
}

}  // namespace heapsnap
