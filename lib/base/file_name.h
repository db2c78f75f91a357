#pragma once

#include <string_view>

namespace heapsnap {

// "libfoo.so" of "/usr/lib/libfoo.so": the part of a path behind the last slash, or all of it.
constexpr std::string_view file_name_of(std::string_view path) {
  return path.substr(path.rfind('/') + 1);  // npos + 1 is 0
}

}  // namespace heapsnap
