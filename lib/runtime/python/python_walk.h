// All of a Python heap: arenas, pools, and what is in their blocks and in malloc's.
//
//   PythonWalk walk(target, place);     // finds the arenas
//   ... each chunk of malloc's walk: walk.on_batch(), walk.on_mmapped() ...
//   walk.take(model);
//
// Nothing is kept but sums by type, and addresses until there are enough of them to read at once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/python/python_arenas.h"
#include "runtime/python/python_graph.h"
#include "runtime/python/python_leftovers.h"
#include "runtime/python/python_objects.h"
#include "runtime/python/python_place.h"
#include "runtime/python/python_types.h"
#include "runtime/runtime_model.h"
#include "runtime/runtime_walk.h"
#include "target/target.h"

namespace heapsnap {

class PythonWalk final : public RuntimeWalk {
 public:
  // `target` outlives it.
  PythonWalk(Target& target, PythonPlace place, RuntimeOptions options = {});

  const std::string& why_not() const override { return runtime_.why_not; }
  void on_batch(const ChunkBatch& batch) override;
  void on_mmapped(const MmappedChunk& chunk) override;
  void take(RuntimeModel& model) override;

 private:
  struct Sum {
    uint64_t count = 0;
    uint64_t tracked = 0;
    uint64_t bytes = 0;
    uint64_t owned_bytes = 0;
    uint64_t malloc_bytes = 0;
  };
  struct SizeClass {
    uint64_t pages = 0;
    uint64_t used = 0;
    uint64_t free = 0;
  };
  struct Block {  // of malloc
    Address at;
    uint64_t room = 0;
  };
  struct Table {  // of a dict
    Address at;
    uint32_t type = 0;
    Address values;  // the table is its class's, and only these are its own
    bool operator<(const Table& other) const { return at < other.at; }
  };

  // What one pool is made of, in bytes.
  struct PoolUse {
    uint64_t used = 0;
    uint64_t free = 0;
    uint64_t overhead = 0;
  };

  void check() const;
  void walk_arena(const PythonArena& arena);
  // False where the pool contradicts itself.
  bool walk_pool(Address at, std::span<const std::byte> pool, uint32_t arena, PoolUse* use);
  // Of a block of `room` bytes with that object, or, if it is null, with none.
  uint32_t class_in_graph(const PythonObject* object, Address at, std::span<const std::byte> block,
                          uint64_t room);
  uint32_t class_without_object(Address at, std::span<const std::byte> block, uint64_t room);
  // Of an object whose size its frame tells, if it is one.
  uint32_t class_of_hidden(const PythonObject& object, Address at, std::span<const std::byte> block,
                           uint64_t room);
  void add(const PythonObject& object, bool is_in_malloc);
  void add_block(Address at, uint64_t room);
  void read_blocks();
  void read_tables();
  Sum& sum_of(uint32_t type);
  // Whether Python has a buffer of that size from malloc.
  bool is_of_malloc(uint64_t bytes) const {
    return arenas_.all.empty() || bytes > PythonLayout::kLargestSlot;
  }

  Target& target_;
  const PythonPlace place_;
  const RuntimeOptions options_;
  PythonArenas arenas_;
  Runtime runtime_;
  PythonTypes types_;
  PythonObjects objects_;
  std::optional<PythonGraph> graph_;          // none: not wanted
  std::optional<PythonLeftovers> leftovers_;  // the same
  std::optional<PythonFrames> frames_;        // the same
  uint64_t least_room_ = 0;                   // of a block of malloc that may be an object
  // Of a Python without arenas, until it is found in a block of malloc.
  std::optional<Address> missing_tuple_;
  std::vector<Sum> sums_;  // by number of type
  std::vector<SizeClass> size_classes_;
  std::vector<RuntimeArea> areas_;
  std::vector<Block> blocks_;
  std::vector<Table> tables_;
  std::vector<std::byte> arena_bytes_;
  std::vector<PageState> page_states_;
};

}  // namespace heapsnap
