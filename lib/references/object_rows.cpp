#include "references/object_rows.h"

#include <algorithm>
#include <cstring>

#include "references/block_slack.h"

namespace heapsnap {

namespace {

// Of a block; what follows is not looked at.
constexpr uint64_t kMostLookedAt = 64 << 10;
class Words {
 public:
  Words(std::span<const std::byte> bytes, unsigned word) : bytes_(bytes), word_(word) {}

  size_t count() const { return bytes_.size() / word_; }
  uint64_t operator[](size_t i) const {
    uint64_t value = 0;
    std::memcpy(&value, bytes_.data() + i * word_, word_);
    return value;
  }
  // Of the value at `from`, the next place with the same; count() if there is none.
  size_t next_same(size_t from) const {
    const uint64_t value = (*this)[from];
    size_t at = from + 1;
    while (at < count() && (*this)[at] != value) ++at;
    return at;
  }
  // How many have the value of the one at `from`, at this distance from each other.
  size_t row(size_t from, size_t distance) const {
    size_t length = 1;
    size_t at = from;
    for (size_t same = next_same(at); same < count() && same == at + distance;
         same = next_same(at)) {
      at = same;
      ++length;
    }
    return length;
  }

 private:
  std::span<const std::byte> bytes_;
  unsigned word_;
};

Words words_of(std::span<const std::byte> bytes, uint64_t usable, unsigned word) {
  return {bytes.first(std::min({usable, bytes.size() * uint64_t{1}, kMostLookedAt})), word};
}

}  // namespace

bool is_row_of_objects(std::span<const std::byte> bytes, uint64_t usable, unsigned word) {
  const Words words = words_of(bytes, usable, word);
  if (words.count() < 2) return false;
  const size_t distance = words.next_same(0);
  if (distance >= words.count()) return false;
  const size_t length = words.row(0, distance);
  return length > 2 || is_filled_by(usable, 2 * uint64_t{distance} * word);
}

bool is_counted_row_of_objects(std::span<const std::byte> bytes, uint64_t usable, unsigned word) {
  const Words words = words_of(bytes, usable, word);
  if (words.count() < 3) return false;
  const uint64_t objects = words[0];
  const size_t distance = words.next_same(1) - 1;
  if (1 + distance >= words.count()) return false;
  const uint64_t seen = (words.count() - 2) / distance + 1;
  return words.row(1, distance) == std::min(objects, seen) &&
         is_filled_by(usable, word + objects * distance * word);
}

}  // namespace heapsnap
