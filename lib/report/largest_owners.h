// What the reports say of owners: the largest, and the commands that say more.
#pragma once

#include <algorithm>
#include <span>
#include <string>

#include "analysis/owner_sums.h"
#include "report/report_input.h"
#include "report/shell_word.h"

namespace heapsnap {

inline std::span<const OwnerSum> largest_owners(const OwnerSums& sums) {
  constexpr size_t kLargest = 3;
  return std::span(sums.owners).first(std::min(sums.owners.size(), kLargest));
}

// Why a snapshot that could have references has none; empty: they were not asked for, or are not
// known to exist.
inline std::string why_no_owners(const SnapshotMetadata& metadata) {
  if (!metadata.references || metadata.references->why_not == kReferencesNotAskedFor) return {};
  return metadata.references->why_not;
}

struct OwnerCommands {
  std::string owners;
  std::string leaks;
};

inline OwnerCommands owner_commands(const ReportInput& input) {
  const std::string file = shell_word(input.snapshot_path, "FILE");
  return {"heapsnap owners " + file, "heapsnap leaks " + file};
}

}  // namespace heapsnap
