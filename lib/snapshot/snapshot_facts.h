// The facts at the start of a snapshot, before its long tables: which process it describes, when it
// was taken, and whether `heapsnap collect` took it. Costs some kilobytes of reading, however large
// it is.
#pragma once

#include <optional>
#include <string>

#include "base/mapped_file.h"
#include "snapshot/metadata.h"

namespace heapsnap {

struct SnapshotFacts {
  Process process;
  std::optional<Collection> collection;
  std::optional<MemoryLeft> memory_left;
};

// Throws Error{kBadInput} when the file is no snapshot, was cut off, or is damaged where these
// facts are. Damage behind them is not noticed. `name` is for messages.
SnapshotFacts read_snapshot_facts(const MappedFile& file, const std::string& name);

}  // namespace heapsnap
