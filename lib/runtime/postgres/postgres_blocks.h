// The blocks of one memory context, and what is free in them.
//
//   malloc ──►  +---------+-------+-----------------------+--------+
//               | context | block | chunk | chunk | ...   | free   |   the first block
//               +---------+-------+-----------------------+--------+
//               +-------+-----------------------+--------+
//               | block | chunk | chunk | ...   | free   |   each other one
//               +-------+-----------------------+--------+
//                                       freeptr ▲        ▲ endptr
//
// Slabs, and generations before 15, have a block of malloc for the context alone. Lists are linked
// both ways, which is checked at each step: what a link leads to leads back. So no list is endless,
// whatever is in memory. A block counts only if it lies in writable memory, and all of them
// together have no more bytes than that.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/postgres/postgres_chunks.h"
#include "runtime/postgres/postgres_layout.h"
#include "runtime/postgres/postgres_memory.h"
#include "runtime/runtime_model.h"
#include "target/target.h"

namespace heapsnap {

// What a context took from malloc at once.
struct PostgresBlock {
  Address at;
  uint64_t bytes = 0;
  uint64_t given = 0;    // of these, what was handed out, from the first one on
  uint32_t context = 0;  // index into the contexts
};

class PostgresBlocks {
 public:
  static constexpr size_t kMostBlocks = 4 << 20;

  PostgresBlocks(Target& target, const PostgresLayout& layout);

  // Adds up the blocks of `context`, whose kind and place are set, and keeps them as those of
  // `number`. `allocated` is what it says of their sum. What does not fit becomes its `problem`: of
  // a list that breaks off nothing counts, of a sum that differs or of damaged chunks the blocks
  // do.
  void read(RuntimeContext& context, uint32_t number, uint64_t allocated);
  const std::vector<PostgresBlock>& all() const { return all_; }
  PageCache& cache() { return memory_.cache(); }

 private:
  // Calls `visit` with each node of a list (lib/ilist.h). False where it does not close.
  template <typename Visit>
  bool visit_nodes(Address head, Visit visit);
  bool read_set(RuntimeContext& context);
  bool read_generation(RuntimeContext& context);
  bool read_slab(RuntimeContext& context);
  bool read_slab_list(RuntimeContext& context, Address head, uint64_t bytes, uint64_t chunk_bytes,
                      uint64_t chunks);
  bool read_bump(RuntimeContext& context);

  // Keeps a block of a context that begins with its first one, if `own_size` says so. `free`: what
  // is free at its end.
  bool add_block(RuntimeContext& context, Address block, uint64_t bytes, uint64_t free,
                 uint64_t own_size);
  bool is_in_swap(Address at, uint64_t bytes);

  Target& target_;
  const PostgresLayout& layout_;
  PostgresMemory memory_;
  PostgresChunks chunks_;
  std::vector<PostgresBlock> all_;
  uint64_t room_ = 0;  // for more blocks: together they are not larger than writable memory
  uint32_t number_ = 0;
  bool has_first_ = false;  // block of this context, behind the context
};

}  // namespace heapsnap
