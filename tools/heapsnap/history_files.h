// Which snapshots a history is of: those of targets, in the store, or those in files and folders.
#pragma once

#include <string>
#include <vector>

#include "tools/heapsnap/snapshot_series.h"

namespace heapsnap {

// `what`: names of targets of the configuration in the file `config`, which have a history each, or
// else folders and files, which have one for each program; without any, all targets of this host
// in the store. A target's history may be empty but for what is passed over. Throws
// Error{kUsage} where nothing is found.
std::vector<HistoryFiles> find_history_files(const std::vector<std::string>& what,
                                             const std::string& config);

}  // namespace heapsnap
