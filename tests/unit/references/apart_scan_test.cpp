#include "references/apart_scan.h"

#include <doctest/doctest.h>

#include <tuple>
#include <vector>

#include "references/object_references.h"
#include "tests/unit/heap/fake_target.h"

using namespace heapsnap;

namespace {

struct Kept final : ReferenceSink {
  using One = std::tuple<BlockNumber, uint32_t, BlockNumber, bool>;
  void on_references(const ReferenceBatch& batch) override {
    size_t at = 0;
    for (size_t i = 0; i < batch.counts.size(); ++i) {
      for (const size_t end = at + batch.counts[i]; at < end; ++at) {
        all.emplace_back(batch.first + i, batch.offsets[at], batch.targets[at],
                         batch.interior[at] != 0);
      }
    }
  }
  std::vector<One> all;
};

// Two blocks of malloc, 0 and 1; three slots of 40 bytes, 2 to 4.
struct Sample {
  FakeTarget target{Machine::kX86_64};
  BlockMap map{Machine::kX86_64, 1 << 20};
  RuntimeObjects objects;
  uint64_t scanned = 0;

  Sample() {
    target.map("00050000-00060000 rw-p 00000000 00:00 0");
    const std::vector<uint64_t> sizes = {64, 64};
    const std::vector<ChunkState> states(2, ChunkState::kUsed);
    map.on_batch({0, 0, Address(0x10000), sizes, states});
    ObjectClass thing;
    thing.name = "thing";
    const uint32_t number = objects.slots.add_class(thing);
    objects.slots.add_page({Address(0x8000), Address(0xc000)}, Address(0x8000), 40, 100);
    for (const uint32_t slot : {0U, 1U, 2U}) objects.slots.add_slot(slot, number);
    objects.seal();
    map.set_slots(std::move(objects.slots));
    map.seal();
  }
  std::vector<ApartReference> scan(std::vector<RuntimeObjects::Apart> parts) {
    return scan_apart(target, map, std::move(parts),
                      [this](const ScannedMemory& memory) { scanned += memory.bytes; });
  }
};

}  // namespace

TEST_CASE("words of objects that lie apart are references of them, behind their own") {
  Sample sample;
  sample.target.put_word(Address(0x50000), 0x10010);  // of nobody
  sample.target.put_word(Address(0x50010), 0x8000);
  sample.target.put_word(Address(0x50018), 0x55);
  sample.target.put_word(Address(0x50020), 0x10010 + 64 + 8);
  sample.target.put_word(Address(0x50028), 0x8000);  // left over
  sample.target.put_word(Address(0x5c000), 0x8050);
  auto found = sample.scan({{Address(0x5c000), 8, 5, Address(0x8000)},
                            {Address(0x50010), 24, 5, Address(0x8050)},
                            {Address(0x50028), 8, 5, Address(0xa000)}});  // of no object
  CHECK(found.size() == 3);
  CHECK(sample.scanned < 0x1000);
  Kept kept;
  ObjectReferences references(sample.map, sample.objects, kept, [](uint32_t, BlockNumber, bool) {});
  found.push_back(found.front());  // once
  references.add_apart_found(std::move(found));
  const std::vector<uint32_t> counts = {1, 0, 0, 0, 1};
  const std::vector<uint32_t> offsets = {0, 4};
  const std::vector<BlockNumber> targets = {1, 1};
  const std::vector<uint8_t> interior = {0, 0};
  references.on_references({0, counts, offsets, targets, interior});
  CHECK(
      kept.all ==
      std::vector<Kept::One>{
          {0, 0, 1, false}, {2, 5, 4, false}, {4, 4, 1, false}, {4, 5, 2, false}, {4, 7, 1, true}});
}

TEST_CASE("what lies apart comes in its place where a block's references come in parts") {
  Sample sample;
  Kept kept;
  ObjectReferences references(sample.map, sample.objects, kept, [](uint32_t, BlockNumber, bool) {});
  const auto apart = [](uint32_t offset) { return ApartReference{0, offset, 2, 0}; };
  references.add_apart_found({apart(1), apart(5), apart(8), apart(20)});
  const std::vector<uint32_t> two = {2};
  const std::vector<uint32_t> none = {0};
  const std::vector<uint32_t> offsets = {3, 6, 8, 9};
  const std::vector<BlockNumber> targets = {1, 1, 1, 1};
  const std::vector<uint8_t> interior = {0, 0, 0, 0};
  references.on_references({0, two, std::span(offsets).first(2), std::span(targets).first(2),
                            std::span(interior).first(2), true});
  references.on_references({0, two, std::span(offsets).last(2), std::span(targets).last(2),
                            std::span(interior).last(2), true});
  CHECK(kept.all.size() == 6);  // what comes last waits for the end
  references.on_references({0, none, {}, {}, {}});
  CHECK(kept.all == std::vector<Kept::One>{{0, 1, 2, false},
                                           {0, 3, 1, false},
                                           {0, 5, 2, false},
                                           {0, 6, 1, false},
                                           {0, 8, 1, false},
                                           {0, 9, 1, false},
                                           {0, 20, 2, false}});
}

TEST_CASE("what a block holds by no word of its own comes where it is said to be") {
  Sample sample;
  sample.objects.listed = {{Address(0x10010), Address(0x10010 + 64), 2},
                           {Address(0x10010), Address(0x10010 + 64), 3},  // of a word: that counts
                           {Address(0x10010), Address(0x10010 + 64), 9}};
  Kept kept;
  ObjectReferences references(sample.map, sample.objects, kept, [](uint32_t, BlockNumber, bool) {});
  const std::vector<uint32_t> counts = {2, 0, 0, 0, 0};
  const std::vector<uint32_t> offsets = {1, 3};
  const std::vector<BlockNumber> targets = {2, 3};
  const std::vector<uint8_t> interior = {0, 0};
  references.on_references({0, counts, offsets, targets, interior});
  CHECK(kept.all == std::vector<Kept::One>{
                        {0, 1, 2, false}, {0, 2, 1, false}, {0, 3, 3, false}, {0, 9, 1, false}});
}

TEST_CASE("words that cannot be read are none, and parts may overlap") {
  Sample sample;
  sample.target.put_word(Address(0x5fff8), 0x8000);
  CHECK(sample.scan({}).empty());
  CHECK(sample
            .scan({{Address(0x5fff8), 64, 5, Address(0x8000)},
                   {Address(0x5fff8), 8, 5, Address(0x8028)},
                   {Address(0x90000), 8, 5, Address(0x8000)}})
            .size() == 1);
}
