// Advice in words.
#pragma once

#include <string>

#include "analysis/advice.h"
#include "snapshot/metadata.h"

namespace heapsnap {

struct AdviceText {
  std::string finding;  // what there is, with its numbers
  std::string action;   // what to do, and what it would save
};

// `metadata` is of the snapshot that the advice is about, which lies at `snapshot_path`.
AdviceText advice_text(const Advice& advice, const SnapshotMetadata& metadata,
                       const std::string& snapshot_path);

// "Together, 1 and 2 save about 64.0 MiB: what both would free is counted once"; "" for none.
std::string together_text(const SavedTogether& together);

}  // namespace heapsnap
