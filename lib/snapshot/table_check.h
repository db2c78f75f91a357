#pragma once

#include <string>

#include "base/error.h"

namespace heapsnap {

// Throws kBadInput for `source`, a snapshot, unless what must hold of its tables does.
inline void check_table(bool holds, const std::string& source, const char* why) {
  if (!holds) throw Error(ErrorKind::kBadInput, source + " is damaged", why);
}

}  // namespace heapsnap
