// The chunks of one AllocSet: what its blocks consist of, and which of them are free.
//
//   block ──►  +-------+------+--------+------+--------+-- - --+
//              | block | size | chunk  | size | chunk  | free  |  before 16: size, and set or
//              +-------+------+--------+------+--------+-- - --+  next free chunk
//                                                      ▲ freeptr   since 16: one word (MemoryChunk)
//
// Free chunks are chained, one list for each size. Chunks must tile a block, and before 16, where
// each says whether it is free, as many must say so as are in the lists.
#pragma once

#include <cstdint>

#include "runtime/postgres/postgres_layout.h"
#include "runtime/postgres/postgres_memory.h"
#include "runtime/runtime_model.h"

namespace heapsnap {

class PostgresChunks {
 public:
  // Both outlive it.
  PostgresChunks(const PostgresLayout& layout, PostgresMemory& memory)
      : layout_(layout), memory_(memory) {}

  // Another set comes.
  void begin() { listed_free_ = 0; }
  // Adds the chunks of a block to those in use. False where they are none, which becomes the set's
  // problem.
  bool count(RuntimeContext& context, Address block, AddressRange chunks);
  // After all blocks: adds what is in the lists to what is free, and takes these chunks off those
  // in use. False where the lists do not fit, which becomes the set's problem.
  bool add_free(RuntimeContext& context);

 private:
  bool is_free_chunk(Address chunk, unsigned list);

  const PostgresLayout& layout_;
  PostgresMemory& memory_;
  uint64_t listed_free_ = 0;  // chunks of this set that say they are free
};

}  // namespace heapsnap
