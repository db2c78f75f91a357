// What several snapshots have of one kind of thing, side by side: sums under names.
//
// Names are compared by 64-bit keys, so that the sums of a snapshot with millions of names take few
// bytes each, and are texts only where they become rows. The rows are bounded: each snapshot adds
// its largest ones, and what it has besides is counted, not listed. A row that a snapshot did not
// add, of which an earlier one had too many to say, is unknown there.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "analysis/size_classes.h"

namespace heapsnap {

// Usable bytes of the blocks of a sum, where its name does not say what they are.
struct SaidSizes {
  uint64_t least = UINT64_MAX;
  uint64_t most = 0;  // 0: not to be said

  void include(const SaidSizes& other) {
    least = std::min(least, other.least);
    most = std::max(most, other.most);
  }
};

// What one snapshot has, added up by name.
class KeyedSums {
 public:
  struct Sum {
    Tally tally;
    uint64_t above = 0;    // the key of what holds it; 0: nothing
    uint8_t depth = 0;     // how many hold it, one above the other
    uint32_t example = 0;  // whatever says the name
    SaidSizes sizes = {};
  };

  // Never 0. Of a name below another one: that one's key, too.
  static uint64_t key_of(std::string_view name, uint64_t above = 0);

  void add(uint64_t key, const Tally& tally, uint32_t example, uint64_t above = 0,
           uint8_t depth = 0, const SaidSizes& sizes = {});
  const std::unordered_map<uint64_t, Sum>& all() const { return sums_; }

 private:
  std::unordered_map<uint64_t, Sum> sums_;
};

struct DiffTableRow {
  std::string name;
  uint64_t above = 0;
  uint8_t depth = 0;
  std::vector<std::optional<Tally>> values;  // of each snapshot; nothing: not known
  SaidSizes sizes = {};                      // in all of them
};

class DiffTable {
 public:
  static constexpr size_t kMostRows = 1 << 14;
  // Longer names are cut.
  static constexpr size_t kMostNameBytes = 1024;

  explicit DiffTable(size_t most_rows = kMostRows) : most_rows_(most_rows) {}

  // The next snapshot. What holds a sum is among the sums, and no smaller.
  using NameOf = std::function<std::string(uint32_t example)>;
  void add(const KeyedSums& sums, const NameOf& name_of);
  // The next snapshot, of which nothing is known.
  void add_unknown();

  size_t snapshots() const { return left_out_.size(); }
  const std::unordered_map<uint64_t, DiffTableRow>& rows() const { return rows_; }
  // What no row counts, of each snapshot.
  const std::vector<Tally>& left_out() const { return left_out_; }

 private:
  size_t most_rows_;
  std::unordered_map<uint64_t, DiffTableRow> rows_;
  std::vector<Tally> left_out_;
  std::vector<bool> is_whole_;  // what has no row had nothing
};

}  // namespace heapsnap
