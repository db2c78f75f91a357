#include "base/count_text.h"

namespace heapsnap {

std::string count_text(uint64_t count) {
  std::string text = std::to_string(count);
  for (size_t place = text.size(); place > 3;) {
    place -= 3;
    text.insert(place, 1, ',');
  }
  return text;
}

std::string count_text(uint64_t count, const std::string& singular, const std::string& plural) {
  return count_text(count) + " " + (count == 1 ? singular : plural);
}

}  // namespace heapsnap
