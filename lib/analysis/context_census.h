// The memory contexts of a snapshot, added up in two ways.
//
//   TopMemoryContext            by name: what has most, wherever it is ("index info" × 90)
//     CacheMemoryContext
//       index info              by group: a context below the top with all that is below it,
//       index info              and the top alone
//     MessageContext
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/runtime_model.h"

namespace heapsnap {

struct ContextName {
  uint32_t runtime = 0;
  std::string name;
  uint64_t count = 0;
  uint64_t bytes = 0;       // blocks, and the contexts themselves
  uint64_t free_bytes = 0;  // of these
  uint64_t used_chunks = 0;
  uint64_t uncounted = 0;  // contexts whose chunks are not counted
  bool operator==(const ContextName&) const = default;
};

struct ContextGroup {
  uint32_t runtime = 0;
  std::string name;
  uint64_t count = 0;
  // Blocks of malloc that back them.
  RuntimeArea::Amount in_heaps;
  RuntimeArea::Amount in_mappings;
  bool operator==(const ContextGroup&) const = default;
};

// Descending by bytes. Sums of damaged snapshots stop at the largest number.
std::vector<ContextName> contexts_by_name(const RuntimeModel& model);
// Those of one name are one. Descending by what is resident, or by bytes where that is not known.
std::vector<ContextGroup> context_groups(const RuntimeModel& model);

}  // namespace heapsnap
