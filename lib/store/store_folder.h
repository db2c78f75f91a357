// A store on the disk. Below the store itself no symbolic link is ever followed, and nothing that
// is no regular file is opened: others may have edited it by hand.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "snapshot/snapshot_facts.h"
#include "store/snapshot_name.h"

namespace heapsnap {

// The store, whose own path may lead through links. Throws Error{kOutput}.
UniqueFd open_store(const std::string& path);
// The same; a store that is not there is made, with mode 0750, if its parent folder is.
UniqueFd make_store(const std::string& path);

// The folder `name` of `parent`. Closed, with errno, when it is none (ELOOP, ENOTDIR: a link or a
// file).
UniqueFd open_folder(int parent, const std::string& name);
// The same. Closed when there is no such folder; throws Error{kBadInput}, naming `path`, when there
// is one that cannot be opened.
UniqueFd open_folder_if_any(int parent, const std::string& name, const std::string& path);
// The same; one that is not there is made, with mode 0750. Throws Error{kOutput}, naming `path`.
UniqueFd make_folder(int parent, const std::string& name, const std::string& path);

// The names in a folder, in order, without "." and "..". Throws Error{kBadInput} when it cannot be
// listed.
std::vector<std::string> names_in(int folder);

// The names of snapshots in a folder, oldest first, as far as they can be told by their form.
std::vector<SnapshotName> snapshot_names_in(int folder);

// A snapshot in a store, looked at through one open file.
struct StoredSnapshot {
  SnapshotName name;
  uint64_t bytes = 0;
  uint64_t device = 0;
  uint64_t inode = 0;
  SnapshotFacts facts;
};

// Reads what the snapshot says of itself. Throws Error{kBadInput} when it is no regular file or no
// snapshot, Error{kNotPermitted} when this user may not read it.
StoredSnapshot read_stored_snapshot(int folder, const SnapshotName& name, const std::string& path);

// Why `collect` did not write `snapshot` at `place` ("HOST/NAME/FILE"); empty when it did, by what
// the snapshot says of itself.
std::string why_foreign(const StoredSnapshot& snapshot, const std::string& place);

// Removes the very file that was read. Gives why that failed; empty when it is gone.
std::string remove_snapshot(int folder, const StoredSnapshot& snapshot);

// Removes temporary files (snapshot/output_file.h) of writers that were killed: those of this user
// that nobody has open. Gives how many.
size_t remove_left_temporaries(int folder);

}  // namespace heapsnap
