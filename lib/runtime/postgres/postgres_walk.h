// The memory contexts of a PostgreSQL process, and the blocks of malloc that back them.
//
//   PostgresWalk walk(target, place, options);  // reads the contexts
//   ... each chunk of malloc's walk: walk.on_batch(), walk.on_mmapped() ...
//   walk.take(model);
//
// What malloc has given and no context has is counted, too: libraries' own memory, and contexts
// that were deleted and are kept, with their first block, for the next one that is made.
//
// In the graph of references a block's type says which context it is of ("index info (memory
// context)"), and what is free at its end holds nothing. Whoever knows a context does not hold
// it, but the one above it does; each of those right below the top is a root, with all below it:
//
//   TopMemoryContext ─► CacheMemoryContext ─► index info    "memory context CacheMemoryContext"
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "runtime/postgres/postgres_contexts.h"
#include "runtime/postgres/postgres_place.h"
#include "runtime/runtime_model.h"
#include "runtime/runtime_walk.h"
#include "target/page_residency.h"
#include "target/target.h"

namespace heapsnap {

class PostgresWalk final : public RuntimeWalk {
 public:
  // `target` outlives it.
  PostgresWalk(Target& target, const PostgresPlace& place, const RuntimeOptions& options);

  const std::string& why_not() const override { return runtime_.why_not; }
  void on_batch(const ChunkBatch& batch) override;
  void on_mmapped(const MmappedChunk& chunk) override;
  void take(RuntimeModel& model) override;

 private:
  // The context whose block this block of malloc is; null: it is none's. `hint`: from where on in
  // the contexts' blocks it may be found.
  RuntimeContext* add_block(Address at, uint64_t usable, size_t& hint);
  void add_amount(RuntimeArea::Amount& amount, AddressRange range);
  void read_spares();
  void tell_graph(const PostgresBlock& block);
  uint32_t class_of(const PostgresBlock& block);
  void tell_tree();

  Target& target_;
  RuntimeObjects* objects_;  // null: nothing is wanted
  const PostgresLayout* layout_;
  Runtime runtime_;
  PostgresContexts contexts_;
  std::vector<Address> spares_;  // what may be a deleted context, by its size
  std::vector<uint64_t> spare_bytes_;
  // By the context's name, whether a block is its first one, and whether it is an AllocSet.
  std::map<std::tuple<std::string, bool, bool>, uint32_t> classes_;
  // States of pages from window_ on.
  Address window_;
  std::vector<PageState> states_;
};

}  // namespace heapsnap
