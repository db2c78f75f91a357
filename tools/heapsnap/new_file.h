// A file that a command writes its result to, or standard output.
#pragma once

#include <string>

#include "base/unique_fd.h"

namespace heapsnap {

// A new file that only its owner may read, or a duplicate of standard output for "" and "-". Throws
// Error{kUsage} when the file exists (unless `replace`), Error{kOutput} when it cannot be made. A
// symbolic link is never followed.
UniqueFd open_new_file(const std::string& path, bool replace);

// What to call it in messages.
std::string output_label(const std::string& path);

}  // namespace heapsnap
