#include "base/free_name.h"

#include <filesystem>
#include <system_error>

namespace heapsnap {

std::string free_file_name(const std::string& name) {
  constexpr int kMost = 1000;
  const std::filesystem::path path(name);
  const std::string end = path.extension();
  const std::string front = name.substr(0, name.size() - end.size());
  std::string candidate = name;
  std::error_code ignored;
  for (int number = 2; number < kMost && std::filesystem::exists(candidate, ignored); ++number) {
    candidate = front;
    candidate.append(".").append(std::to_string(number)).append(end);
  }
  return candidate;
}

}  // namespace heapsnap
