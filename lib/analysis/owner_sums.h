// What each root owns, without what lies below it: the top of an owner tree, at a fraction of its
// cost, as sums of what each block's owner is (block_owners.h).
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/owner_tree.h"
#include "analysis/reference_streams.h"
#include "analysis/size_classes.h"
#include "analysis/snapshot_streams.h"
#include "references/root.h"

namespace heapsnap {

struct OwnerSum {
  bool is_several = false;  // a group of roots that share
  uint32_t place = 0;       // index into OwnerSums::groups then, else into places
  Tally retained;
  bool operator==(const OwnerSum&) const = default;
};

struct OwnerSums {
  std::vector<RootPlace> places;              // as OwnerTree::places
  std::vector<uint32_t> threads;              // as OwnerTree::threads
  std::vector<OwnerSum> owners;               // by retained bytes, largest first
  std::vector<std::vector<uint32_t>> groups;  // as OwnerTree::groups
  Tally in_use;                               // all blocks but malloc's own
  Tally leaked;                               // of these, what no root leads to, and no
  Tally garbage;                              // of language runtimes (garbage_of())
};

// The same figures as those of make_owner_tree() at the top. At most 32 bytes a block where each
// has one reference and a half. Throws Error{kBadInput} when blocks and references do not fit
// together.
OwnerSums sum_owners(const SnapshotStreams& streams, const ReferenceStreams& references);

// The same from a tree by root that is there already.
OwnerSums sums_of(const OwnerTree& tree);

}  // namespace heapsnap
