// What follows from the references of a snapshot, for people and for programs: leaks, owners,
// types, and why one block is there.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/held_block.h"
#include "analysis/leak_census.h"
#include "analysis/leak_trails.h"
#include "analysis/owner_tree.h"
#include "analysis/reference_streams.h"
#include "analysis/type_census.h"
#include "report/text_report.h"
#include "report/writer.h"
#include "snapshot/call_stack_tables.h"
#include "snapshot/metadata.h"

namespace heapsnap {

struct ReferenceReportInput {
  const SnapshotMetadata& metadata;  // has references
  const ReferenceStreams& references;
  const RecordedStacks& recorded;  // empty when the process was not tracked
  std::string snapshot_path;       // empty: a temporary one
  std::string core_path{};         // of a temporary one: the core that it is of
  bool may_run = true;             // the process, here; else commands for its PID are of no use
};

// A head, then each group of leaks, with what it retains.
void print_leaks(Writer& out, const ReferenceReportInput& input, const LeakCensus& census,
                 size_t limit, const TextStyle& style);
// {"kind":"leaks","version":1,...}: all groups; with `all` each block as well.
void print_json_leaks(Writer& out, const ReferenceReportInput& input, const LeakCensus& census,
                      bool all);
// {"kind":"leak-trails","version":1,...}: of the largest of each of the first groups.
void print_json_leak_trails(Writer& out, const ReferenceReportInput& input,
                            const LeakCensus& census,
                            const std::vector<std::vector<LeakStep>>& trails);

// What of the tree is shown.
struct OwnerListing {
  OwnerGrouping by = OwnerGrouping::kRoot;
  uint64_t depth = 3;       // nodes below a root
  uint64_t limit = 10;      // at the top, and below each node; 0: all
  double min_share = 0.01;  // of what is in use; of a node below the top
};
void print_owners(Writer& out, const ReferenceReportInput& input, const OwnerTree& tree,
                  const OwnerListing& listing, const TextStyle& style);
// {"kind":"owners","version":1,...}: all that are at the top; below them as listed.
void print_json_owners(Writer& out, const ReferenceReportInput& input, const OwnerTree& tree,
                       const OwnerListing& listing);

// What of the types is shown, and in which order; those without a name among the others.
struct TypeListing {
  enum class Order : uint8_t { kBytes, kCount, kRetained };
  Order order = Order::kBytes;
  uint64_t limit = 20;  // 0: all
};
void print_types(Writer& out, const ReferenceReportInput& input, const TypeCensus& census,
                 const TypeListing& listing, const TextStyle& style);
// {"kind":"types","version":1,...}: all types, in the order of the listing.
void print_json_types(Writer& out, const ReferenceReportInput& input, const TypeCensus& census,
                      const TypeListing& listing);

void print_held_block(Writer& out, const ReferenceReportInput& input, const HeldBlock& held,
                      const TextStyle& style);
// {"kind":"why","version":1,...}
void print_json_held_block(Writer& out, const ReferenceReportInput& input, const HeldBlock& held);

}  // namespace heapsnap
