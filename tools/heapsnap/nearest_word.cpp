#include "tools/heapsnap/nearest_word.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace heapsnap {

namespace {

// Letters to be put in, taken out or changed to get from one word to the other.
size_t edit_distance(std::string_view one, std::string_view other) {
  std::vector<size_t> row(other.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < one.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < other.size(); ++j) {
      const size_t changed = diagonal + (one[i] == other[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string nearest_word(std::string_view word, std::span<const std::string> candidates) {
  constexpr size_t kLongestWord = 32;
  if (word.size() > kLongestWord) return {};
  std::string nearest;
  size_t distance = 3;
  for (const std::string& candidate : candidates) {
    const size_t its = edit_distance(word, candidate);
    if (its >= distance || its + 1 >= candidate.size()) continue;
    distance = its;
    nearest = candidate;
  }
  return nearest;
}

}  // namespace heapsnap
