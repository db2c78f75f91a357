#include "base/error.h"

#include <cstring>

namespace heapsnap {

std::string errno_text(int error_number) {
  const char* description = strerrordesc_np(error_number);
  const char* name = strerrorname_np(error_number);
  std::string text = description != nullptr ? description : "unknown error";
  text += " (";
  text += name != nullptr ? std::string(name) : std::to_string(error_number);
  return text + ")";
}

}  // namespace heapsnap
