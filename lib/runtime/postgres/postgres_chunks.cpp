#include "runtime/postgres/postgres_chunks.h"

#include <string>

namespace heapsnap {

namespace {

// memutils_memorychunk.h: what the word in front of a chunk says, since 16.
//
//   63        34 33    bits + 1   bits  0
//   | distance  | value | external | method |   the lowest bit of the distance is 0, and value's
struct MemoryChunk {
  MemoryChunk(uint64_t word, unsigned bits)
      : method(word & ((1U << bits) - 1)),
        is_external((word >> bits & 1) != 0),
        value(word >> (bits + 1) & 0x3fffffff),
        block_distance(word >> 34 & 0x3ffffffe) {}

  uint64_t method;
  bool is_external;  // large: the only one of its block
  uint64_t value;    // of a set: the number of the list that it belongs to
  uint64_t block_distance;
};

}  // namespace

bool PostgresChunks::count(RuntimeContext& context, Address block, AddressRange chunks) {
  constexpr const char* kWhat = "a chunk is damaged: that at";
  const uint64_t header = layout_.set_chunk_header;
  for (Address at = chunks.begin; at < chunks.end;) {
    const auto front = memory_.word(at);
    if (!front || chunks.end - at < header) return tell_problem(context, kWhat, at);
    uint64_t size = 0;
    if (layout_.has_memory_chunks()) {
      const MemoryChunk chunk(*front, layout_.method_bits);
      if (chunk.method != PostgresLayout::kSetMethods) return tell_problem(context, kWhat, at);
      if (chunk.is_external) {
        if (at != chunks.begin) return tell_problem(context, kWhat, at);
        size = chunks.end - at - header;
      } else {
        if (chunk.value >= PostgresLayout::kFreeLists || chunk.block_distance != at - block) {
          return tell_problem(context, kWhat, at);
        }
        size = PostgresLayout::kLeastChunk << chunk.value;
      }
    } else {
      size = *front;
      if (memory_.word(at + 8) != context.at.value()) ++listed_free_;
    }
    if (size % 8 != 0 || size > chunks.end - at - header) return tell_problem(context, kWhat, at);
    ++context.used_chunks;
    at += header + size;
  }
  return true;
}

bool PostgresChunks::is_free_chunk(Address chunk, unsigned list) {
  const uint64_t size = PostgresLayout::kLeastChunk << list;
  const auto front = memory_.word(chunk);
  if (!front || !memory_.is_writable(chunk, layout_.set_chunk_header + size)) return false;
  if (!layout_.has_memory_chunks()) return *front == size;
  const MemoryChunk header(*front, layout_.method_bits);
  return header.method == PostgresLayout::kSetMethods && !header.is_external &&
         header.value == list;
}

bool PostgresChunks::add_free(RuntimeContext& context) {
  constexpr uint64_t kLink = 8;  // behind the size, or in the chunk that is free
  const uint64_t behind = context.free_bytes;
  const auto give_up = [&](const char* what, Address where) {
    context.free_bytes = behind;
    context.free_chunks = 0;
    return tell_problem(context, what, where);
  };
  for (unsigned list = 0; list < PostgresLayout::kFreeLists; ++list) {
    const uint64_t size = layout_.set_chunk_header + (PostgresLayout::kLeastChunk << list);
    Address chunk(memory_.word(context.at + layout_.set_free_lists + list * 8ULL).value_or(0));
    while (!chunk.is_null()) {
      if (!is_free_chunk(chunk, list)) {
        return give_up("a list of its free chunks breaks off at", chunk);
      }
      ++context.free_chunks;
      context.free_bytes += size;
      if (context.free_bytes > context.bytes) {
        return give_up("more is in its lists of free chunks than it has, the last at", chunk);
      }
      chunk = Address(memory_.word(chunk + kLink).value_or(0));
    }
  }
  if (!context.counts_chunks) return true;
  const uint64_t free = layout_.has_memory_chunks() ? context.free_chunks : listed_free_;
  if (free != context.free_chunks || free > context.used_chunks) {
    if (context.problem.empty()) {
      context.problem = std::to_string(context.free_chunks) +
                        " chunks are in its lists of free ones, but " + std::to_string(free) +
                        " of " + std::to_string(context.used_chunks) + " say they are free";
    }
    return false;
  }
  context.used_chunks -= free;
  return true;
}

}  // namespace heapsnap
