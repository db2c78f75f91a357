#include "analysis/diff_table.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace heapsnap {

namespace {

// Not in the middle of a letter.
std::string cut(std::string name) {
  if (name.size() <= DiffTable::kMostNameBytes) return name;
  size_t end = DiffTable::kMostNameBytes;
  constexpr unsigned char kMask = 0xc0;
  constexpr unsigned char kContinued = 0x80;
  while (end > 0 && (static_cast<unsigned char>(name[end]) & kMask) == kContinued) --end;
  name.resize(end);
  return name + "…";
}

}  // namespace

uint64_t KeyedSums::key_of(std::string_view name, uint64_t above) {
  // FNV-1a, begun with what is above.
  uint64_t key = 0xcbf29ce484222325 ^ (above * 0x9e3779b97f4a7c15);
  for (const char letter : name) {
    key = (key ^ static_cast<unsigned char>(letter)) * 0x100000001b3;
  }
  return key == 0 ? 1 : key;
}

void KeyedSums::add(uint64_t key, const Tally& tally, uint32_t example, uint64_t above,
                    uint8_t depth, const SaidSizes& sizes) {
  const auto [entry, is_new] = sums_.try_emplace(key);
  if (is_new) entry->second = {{}, above, depth, example};
  entry->second.tally += tally;
  entry->second.sizes.include(sizes);
}

void DiffTable::add(const KeyedSums& sums, const NameOf& name_of) {
  const size_t snapshot = snapshots();
  left_out_.emplace_back();
  is_whole_.push_back(true);
  for (auto& [key, row] : rows_) row.values.emplace_back(Tally{});
  std::vector<std::pair<uint64_t, const KeyedSums::Sum*>> added;
  for (const auto& [key, sum] : sums.all()) {
    if (const auto row = rows_.find(key); row != rows_.end()) {
      row->second.values.back() = sum.tally;
      row->second.sizes.include(sum.sizes);
    } else {
      added.emplace_back(key, &sum);
    }
  }
  // So many that there is room for what grows later.
  const size_t room = (most_rows_ - std::min(most_rows_, rows_.size()) + 1) / 2;
  std::sort(added.begin(), added.end(), [](const auto& a, const auto& b) {
    const auto rank = [](const auto& each) {
      return std::tuple(~each.second->tally.bytes, each.second->depth, each.first);
    };
    return rank(a) < rank(b);
  });
  // Of the snapshots before, nothing is known of a name that may be among those left out.
  std::vector<std::optional<Tally>> before(snapshot);
  for (size_t i = 0; i < snapshot; ++i) {
    if (is_whole_[i]) before[i].emplace();
  }
  for (size_t i = 0; i < added.size(); ++i) {
    const auto& [key, sum] = added[i];
    if (i >= room) {
      is_whole_[snapshot] = false;
      // What is below another one is counted there.
      if (sum->depth == 0) left_out_[snapshot].add(sum->tally.bytes);
      continue;
    }
    DiffTableRow row{cut(name_of(sum->example)), sum->above, sum->depth, before, sum->sizes};
    row.values.emplace_back(sum->tally);
    rows_.emplace(key, std::move(row));
  }
}

void DiffTable::add_unknown() {
  left_out_.emplace_back();
  is_whole_.push_back(false);
  for (auto& [key, row] : rows_) row.values.emplace_back();
}

}  // namespace heapsnap
