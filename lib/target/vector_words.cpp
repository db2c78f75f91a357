#include "target/vector_words.h"

#include <algorithm>
#include <cstring>

namespace heapsnap {

namespace {

constexpr size_t kVectorsBegin = 160;  // xmm0
constexpr size_t kHeaderBegin = 512;
constexpr size_t kHeaderEnd = 576;
constexpr uint64_t kLowestMapped = 1 << 16;
constexpr uint64_t kUserEnd = uint64_t{1} << 47;

}  // namespace

std::vector<uint64_t> vector_words(std::span<const std::byte> area) {
  std::vector<uint64_t> words;
  area = area.first(std::min(area.size(), kVectorArea));
  for (size_t at = kVectorsBegin; at + sizeof(uint64_t) <= area.size(); at += sizeof(uint64_t)) {
    if (at >= kHeaderBegin && at < kHeaderEnd) continue;
    uint64_t word = 0;
    std::memcpy(&word, area.data() + at, sizeof word);
    if (word >= kLowestMapped && word < kUserEnd) words.push_back(word);
  }
  return words;
}

}  // namespace heapsnap
