// The tree of memory contexts of a PostgreSQL process.
//
//   TopMemoryContext ──► context ── firstchild ──► context ── nextchild ──► context ──► ...
//                           ▲                        │  ◄──── prevchild ─────  │
//                           └──────── parent ────────┴────────── parent ───────┘
//
// Each link is checked by the one that leads back, so no context comes twice, whatever is in
// memory; a link that fails ends its row of siblings and is a problem of their parent. A context is
// one only with the tag of a kind of that version and with that kind's methods: a table of
// functions in the server's own segments.
#pragma once

#include <string>
#include <vector>

#include "runtime/postgres/postgres_blocks.h"
#include "runtime/postgres/postgres_place.h"
#include "runtime/runtime_model.h"
#include "runtime/runtime_walk.h"
#include "target/target.h"

namespace heapsnap {

struct PostgresContexts {
  static constexpr size_t kMost = 1 << 20;

  std::vector<RuntimeContext> all;    // each behind its parent, which is an index into these
  std::vector<PostgresBlock> blocks;  // ascending, disjoint
  Address set_methods;                // of each AllocSet
  std::string why_not;                // one clause: why there are none; empty: these are all
};

// Where texts are kept, also what contexts say of what they are for (a query's text, an index's
// name).
PostgresContexts read_postgres_contexts(Target& target, const PostgresPlace& place,
                                        const RuntimeOptions& options);

}  // namespace heapsnap
