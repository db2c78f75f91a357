// How much a figure may grow: "10%" of what it was, or a number of bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace heapsnap {

struct GrowthBound {
  std::string text;             // as it was given
  std::optional<double> share;  // 0.1 of "10%"; else by `bytes`
  uint64_t bytes = 0;

  bool is_past(double before, double growth) const {
    return growth > (share ? *share * before : static_cast<double>(bytes));
  }
};

}  // namespace heapsnap
