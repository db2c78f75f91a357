// Files whose names somebody else chose: a process by its mappings, a core, a .gnu_debuglink.
//
// Opening can act by itself: a FIFO blocks or wakes its writer, a tape rewinds, a watchdog starts
// to run, a terminal becomes ours. So a name is first looked up without being opened (O_PATH), then
// seen to be a regular file, and that very file is opened.
#pragma once

#include <string>

#include "base/unique_fd.h"

namespace heapsnap {

// The regular file that `file`, an O_PATH descriptor, leads to, open for reading. Closed, with
// errno (EINVAL: no regular file), when it cannot be had.
UniqueFd reopen_regular(const UniqueFd& file);

// The regular file at `path`, whose links are followed. Closed, with errno, as above.
UniqueFd open_regular(const std::string& path);

// An O_PATH descriptor of `path` as a process sees it whose root folder is `root`: neither ".." nor
// a link, absolute or not, leads out of it. Links of /proc that lead anywhere are not followed.
UniqueFd find_in_root(int root, const std::string& path);

// The regular file at `path` in the root folder `root` ("" and "/": our own). Closed, with errno,
// as above.
UniqueFd open_regular_in(const std::string& root, const std::string& path);

}  // namespace heapsnap
