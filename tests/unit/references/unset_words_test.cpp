#include "references/unset_words.h"

#include <doctest/doctest.h>

#include <vector>

#include "heap/chunk.h"

using namespace heapsnap;

namespace {

struct LastBatch final : ReferenceSink {
  void on_references(const ReferenceBatch& batch) override {
    counts.assign(batch.counts.begin(), batch.counts.end());
    offsets.assign(batch.offsets.begin(), batch.offsets.end());
    targets.assign(batch.targets.begin(), batch.targets.end());
    interior.assign(batch.interior.begin(), batch.interior.end());
    is_same = batch.targets.data() == given;
  }
  std::vector<uint32_t> counts;
  std::vector<uint32_t> offsets;
  std::vector<BlockNumber> targets;
  std::vector<uint8_t> interior;
  const BlockNumber* given = nullptr;
  bool is_same = false;
};

}  // namespace

TEST_CASE("references by words that are not set are left out, and no others") {
  BlockMap map(Machine::kX86_64, 1 << 20);
  const std::vector<uint64_t> sizes{64, 64, 64};
  const std::vector<ChunkState> states(3, ChunkState::kUsed);
  map.on_batch({0, 0, Address(0x10000), sizes, states});
  map.seal();
  REQUIRE(map.blocks() == 3);
  // Words 1 and 2, and 5, of the second block; and memory that is in none.
  const std::vector<AddressRange> words{{Address(0x10050 + 8), Address(0x10050 + 24)},
                                        {Address(0x10050 + 8), Address(0x10050 + 16)},
                                        {Address(0x10050 + 16), Address(0x10050 + 24)},
                                        {Address(0x90000), Address(0x90010)},
                                        {Address(0x10050 + 40), Address(0x10050 + 48)}};
  LastBatch kept;
  UnsetWords set_only(map, words, kept);
  const std::vector<uint32_t> counts{1, 4, 1};
  const std::vector<uint32_t> offsets{1, 0, 1, 3, 5, 2};
  const std::vector<BlockNumber> targets{1, 0, 1, 2, 0, 1};
  const std::vector<uint8_t> interior{0, 0, 1, 2, 3, 4};
  set_only.on_references({0, counts, offsets, targets, interior});
  CHECK(kept.counts == std::vector<uint32_t>{1, 2, 1});
  CHECK(kept.offsets == std::vector<uint32_t>{1, 0, 3, 2});
  CHECK(kept.targets == std::vector<BlockNumber>{1, 0, 2, 1});
  CHECK(kept.interior == std::vector<uint8_t>{0, 0, 2, 4});
  // Where there are none, nothing is copied.
  const std::vector<uint32_t> one{1};
  kept.given = targets.data();
  set_only.on_references({2, one, offsets, targets, interior});
  CHECK(kept.is_same);
}
