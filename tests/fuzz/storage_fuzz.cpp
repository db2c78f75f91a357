// Heaps of any words, in which containers are looked for: every block gets one kind at most, in
// bounded work, and a word outside of all blocks that leads nowhere changes nothing.
//
// A word is made of two bytes, so that it is often an address, a count or a size:
//
//   0x00 to 0xbf, offset    an address in the block of that number (modulo how many there are)
//   0xc0 to 0xdf, bytes     a number
//   0xe0 to 0xef, any       an address in the data outside of the heap
//   0xf0 to 0xff, any       1.0, as hash tables have it
#include <cstddef>
#include <cstdint>
#include <vector>

#include "references/container_storage.h"
#include "references/reference_scan.h"
#include "tests/fuzz/fuzzed_heap.h"
#include "tests/unit/heap/sparse_target.h"

namespace {

using namespace heapsnap;
using test::require;

constexpr uint64_t kHeap = 0x560000010000;
constexpr Address kData{0x404000};
constexpr uint64_t kDataBytes = 0x1000;
constexpr uint64_t kWord = 8;

class CountingSink final : public ReferenceSink {
 public:
  void on_references(const ReferenceBatch& batch) override { references_ += batch.targets.size(); }
  uint64_t references() const { return references_; }

 private:
  uint64_t references_ = 0;
};

struct FuzzedWords {
  SparseTarget target{Machine::kX86_64};
  std::vector<uint64_t> sizes;
  std::vector<ChunkState> states;
  std::vector<uint64_t> addresses;

  explicit FuzzedWords(test::FuzzedBytes& bytes) {
    target.map(Address(kHeap), 1 << 20, "rw-p", "[heap]");
    target.map(kData, kDataBytes);
    uint64_t end = kHeap;
    const unsigned chunks = bytes.next() % 64 + 1U;
    for (unsigned i = 0; i < chunks; ++i) {
      const uint8_t what = bytes.next();
      sizes.push_back(32 + 16 * (what % 64U));
      states.push_back(what >= 240 ? ChunkState::kTcache : ChunkState::kUsed);
      addresses.push_back(end + 2 * kWord);
      end += sizes.back();
    }
    if (bytes.next() % 64 == 0) target.editable_process().swap = 4096;
    if (bytes.next() % 64 == 0) target.mark_swapped(Address(kHeap + 0x1000));
    for (uint64_t at = kData.value(); !bytes.is_empty() && at < (kData + 64 * kWord).value();
         at += kWord) {
      target.put_word(Address(at), word(bytes));
    }
    for (uint64_t at = kHeap + 2 * kWord; !bytes.is_empty() && at + kWord < end; at += kWord) {
      target.put_word(Address(at), word(bytes));
    }
  }

  uint64_t word(test::FuzzedBytes& bytes) const {
    const uint8_t kind = bytes.next();
    const uint8_t value = bytes.next();
    if (kind < 0xc0) return addresses[kind % addresses.size()] + value;
    if (kind < 0xe0) return value;
    return kind < 0xf0 ? (kData + 4 * value % kDataBytes).value() : 0x3f800000;
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  test::FuzzedBytes bytes(data, size);
  FuzzedWords heap(bytes);
  BlockMap map(Machine::kX86_64, 1 << 20);
  map.on_batch({0, 0, Address(kHeap), heap.sizes, heap.states});
  map.seal();
  require(map.why_not().empty());
  ContainerStorage storage(heap.target, map);
  CountingSink sink;
  BlockEdges edges(sink, 1 << 20);
  scan_blocks(heap.target, map, edges, {}, {}, &storage);
  edges.seal(map);
  require(!edges.is_cut_off());
  for (const bool is_on_stack : {false, true}) {
    storage.set_on_stack(is_on_stack);
    scan_outside(
        heap.target, map, {kData, kData + kDataBytes / 2}, [](const FoundWord&) {}, &storage);
  }
  const uint64_t before = heap.target.reads();
  storage.follow(edges);
  require(heap.target.reads() - before <= 4 * uint64_t{map.blocks()} + 600);
  for (BlockNumber block = 0; block < map.blocks(); ++block) {
    require(static_cast<int>(storage.kind(block)) < kStorageKindCount);
  }
  return 0;
}
