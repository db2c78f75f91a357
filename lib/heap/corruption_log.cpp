#include "heap/corruption_log.h"

#include <charconv>
#include <utility>

namespace heapsnap {

void CorruptionLog::add(Address where, int32_t arena, int64_t segment, std::string what) {
  ++count_;
  if (kept_.size() < kKept) kept_.push_back({where, arena, segment, std::move(what)});
}

std::vector<Corruption> CorruptionLog::take() {
  if (count_ > kKept) {
    kept_.push_back({Address(), -1, -1,
                     std::to_string(count_ - kKept) + " more damaged places are not listed"});
  }
  count_ = 0;
  return std::exchange(kept_, {});
}

std::string hex(uint64_t value) {
  char digits[16];
  const auto end = std::to_chars(digits, digits + sizeof(digits), value, 16).ptr;
  return "0x" + std::string(digits, end);
}

std::string hex(Address address) {
  return hex(address.value());
}

}  // namespace heapsnap
