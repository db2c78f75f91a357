// Whether a text has a part.
#pragma once

#include <string>

namespace heapsnap::test {

inline bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace heapsnap::test
