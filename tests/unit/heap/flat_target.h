// A SparseTarget once more, with what was written lying in memory of ours as a core's does, so that
// passes can be made over it.
#pragma once

#include <algorithm>
#include <vector>

#include "tests/unit/heap/sparse_target.h"

namespace heapsnap {

class FlatTarget final : public Target, private MemoryReader {
 public:
  explicit FlatTarget(const SparseTarget& target) : rest_(target) {
    for (const AddressRange& range : rest_.written()) {
      pieces_.push_back({range, std::vector<std::byte>(range.size())});
      rest_.memory().read(range.begin, pieces_.back().bytes);
    }
  }

  const Process& process() const override { return rest_.process(); }
  const AddressSpace& address_space() const override { return rest_.address_space(); }
  const std::vector<Thread>& threads() const override { return rest_.threads(); }
  MemoryReader& memory() override { return *this; }
  PageResidency& residency() override { return rest_.residency(); }
  bool is_mapped_here() const override { return true; }
  std::span<const std::byte> mapped_bytes(Address address) override { return bytes_at(address); }
  std::optional<MappedFile> open_file(const Mapping&) override { return std::nullopt; }

 private:
  struct Piece {
    AddressRange range;
    std::vector<std::byte> bytes;
  };

  std::span<const std::byte> bytes_at(Address address) const {
    const auto after = std::upper_bound(
        pieces_.begin(), pieces_.end(), address,
        [](Address wanted, const Piece& piece) { return wanted < piece.range.begin; });
    if (after == pieces_.begin() || !std::prev(after)->range.contains(address)) return {};
    const Piece& piece = *std::prev(after);
    return std::span(piece.bytes).subspan(address - piece.range.begin);
  }

  AddressRange next_readable(AddressRange range) override {
    return rest_.memory().next_readable(range);
  }
  size_t read(Address from, std::span<std::byte> out) override {
    const std::span<const std::byte> bytes = bytes_at(from);
    if (bytes.size() < out.size()) return rest_.memory().read(from, out);
    std::copy_n(bytes.begin(), out.size(), out.begin());
    return out.size();
  }

  SparseTarget rest_;
  std::vector<Piece> pieces_;  // in order
};

}  // namespace heapsnap
