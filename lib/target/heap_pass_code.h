// The loops of HeapPasses, over memory that can be looked at as it is.
//
// They are compiled twice: for memory of this process, and into code that is carried to another one
// (platform/linux/carried_passes.cpp). So they call nothing, allocate nothing and use no constants
// in memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "target/heap_passes.h"

namespace heapsnap {

// Memory of the target, [begin, end), and where it lies: at its address plus `bias`.
struct PlacedMemory {
  uint64_t begin = 0;
  uint64_t end = 0;
  uint64_t bias = 0;

  bool contains(uint64_t address, uint64_t bytes) const {
    return address >= begin && address <= end && end - address >= bytes;
  }
  uint64_t word(uint64_t address) const {
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
  void go_on(const PlacedMemory& memory, uint64_t at, uint64_t size) {
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

  // Behind the memory's end it does no harm.
  static void fetch(const PlacedMemory& memory, uint64_t address) {
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

// Memories that are disjoint and in order; finds the one of an address near the last.
struct PlacedMemories {
  const PlacedMemory* all = nullptr;
  size_t count = 0;
  const PlacedMemory* last = nullptr;

  // Whether a chunk's first words are there to be read, in `last`.
  bool hold_chunk(uint64_t chunk) {
    if (chunk % kChunkHeader != 0 || count == 0) return false;
    if (last != nullptr && last->contains(chunk, 2 * kChunkHeader)) return true;
    size_t first = 0;
    size_t behind = count;
    while (behind - first > 1) {
      const size_t middle = first + (behind - first) / 2;
      (all[middle].begin <= chunk ? first : behind) = middle;
    }
    last = all + first;
    return last->contains(chunk, 2 * kChunkHeader);
  }
};

struct ListCounts {
  size_t forward = 0;   // answers from the first place on
  size_t backward = 0;  // from the last place down
};

inline ListCounts follow_list(ListScan& list, const PlacedMemory* memories, size_t memory_count,
                              uint64_t* answers, size_t room) {
  uint64_t chunk = list.chunk.value();
  uint64_t previous = list.previous.value();
  uint64_t tail = list.tail.value();
  uint64_t following = list.following.value();
  PlacedMemories forward{memories, memory_count, nullptr};
  PlacedMemories backward{memories, memory_count, nullptr};
  ListCounts counts;
  while (counts.forward + counts.backward < room && chunk != following) {
    if (!forward.hold_chunk(chunk)) break;
    uint64_t next = forward.last->word(chunk + 16);
    if (list.size != 0) {
      if ((forward.last->word(chunk + 8) & ~kSizeFlags) != list.size) break;
      if (list.is_protected) next ^= (chunk + 16) >> 12;
    } else if (forward.last->word(chunk + 24) != previous) {
      break;
    }
    answers[counts.forward++] = chunk;
    previous = chunk;
    chunk = next;

    if (tail == 0 || chunk == following || counts.forward + counts.backward == room) continue;
    if (!backward.hold_chunk(tail) || backward.last->word(tail + 16) != following) {
      tail = 0;  // what is odd there is for the way forward to find
      continue;
    }
    answers[room - ++counts.backward] = tail;
    following = tail;
    tail = backward.last->word(tail + 24);
  }
  list.chunk = Address(chunk);
  list.previous = Address(previous);
  list.tail = Address(tail);
  list.following = Address(following);
  return counts;
}

}  // namespace heapsnap
