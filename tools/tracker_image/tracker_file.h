// A file with the tracker's library, for LD_PRELOAD.
//
// Its name stays in the environment of the program that is started with it and of all that this
// one starts, daemons too, and is opened at each of their execve(2), with the rights that they have
// then, long after heapsnap has gone. So
//   - nobody but the user and root can ever put another file in its place: every folder on the way
//     belongs to one of the two, and nobody else may write to it (/tmp is no such folder, nor is
//     the number of a process);
//   - it stays where it is. It is one file for each build of heapsnap, made once.
#pragma once

#include <string>
#include <vector>

namespace heapsnap {

// The path of such a file: the installed library when it is the one of this build; else the file in
// the first of tracker_folders() that takes it and lets it be executed, made if it is not there.
// Throws Error{kOutput} when there is none.
std::string preloadable_tracker();

// Where it may be made: for root /var/cache/heapsnap, readable by all; $XDG_CACHE_HOME/heapsnap,
// .cache/heapsnap in the home directory, $XDG_RUNTIME_DIR/heapsnap.
std::vector<std::string> tracker_folders();

// Makes the file in `folder`, which is made too, or finds it there. Empty when that cannot be, or
// when others could put theirs in its place.
std::string tracker_file_in(const std::string& folder);

}  // namespace heapsnap
