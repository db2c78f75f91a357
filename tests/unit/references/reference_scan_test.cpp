#include "references/reference_scan.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <system_error>
#include <thread>
#include <utility>

#include "references/memory_pieces.h"
#include "tests/unit/heap/fake_target.h"
#include "tests/unit/heap/flat_target.h"
#include "tests/unit/heap/sparse_target.h"
#include "tests/unit/references/random_heap.h"

using namespace heapsnap;

namespace {

struct OneReference {
  BlockNumber source = 0;
  uint32_t offset = 0;
  BlockNumber target = 0;
  bool interior = false;
  auto operator<=>(const OneReference&) const = default;
};

class Collector final : public ReferenceSink {
 public:
  void on_references(const ReferenceBatch& batch) override {
    CHECK(batch.first == (goes_on ? next - 1 : next));
    goes_on = batch.goes_on;
    most = std::max(most, batch.targets.size());
    size_t reference = 0;
    for (size_t i = 0; i < batch.counts.size(); ++i) {
      for (uint32_t k = 0; k < batch.counts[i]; ++k, ++reference) {
        all.push_back({batch.first + static_cast<BlockNumber>(i), batch.offsets[reference],
                       batch.targets[reference], batch.interior[reference] != 0});
      }
    }
    CHECK(reference == batch.targets.size());
    next = batch.first + static_cast<BlockNumber>(batch.counts.size());
  }
  BlockNumber next = 0;
  bool goes_on = false;
  size_t most = 0;  // references in a batch
  std::vector<OneReference> all;
};

// A heap in memory, with words in blocks and elsewhere that point to blocks and elsewhere.
struct WrittenHeap {
  RandomHeap heap;
  SparseTarget target;
  std::vector<OneReference> references;

  WrittenHeap(std::mt19937_64& random, Machine machine)
      : heap(random_heap(random, machine, 200)), target(machine) {
    const uint64_t word = word_size(machine);
    for (const auto& segment : heap.segments) map_around(segment.front().begin, end_of(segment));
    for (const MmappedChunk& chunk : heap.mmapped) {
      map_around(chunk.chunk.value(), (chunk.chunk + chunk.size).value());
    }
    const auto blocks = heap.blocks();
    if (blocks.empty()) return;
    std::map<Address, uint64_t> words;
    for (size_t i = 0; i < 3 * blocks.size(); ++i) {
      const BlockNumber to = random() % blocks.size();
      const uint64_t inside = random() % 3 == 0 ? random() % blocks[to].size() : 0;
      const uint64_t value = random() % 5 == 0 ? random() : (blocks[to].begin + inside).value();
      const AddressRange& from = blocks[random() % blocks.size()];
      // Into its usable bytes, and sometimes into the size field behind them.
      words[from.begin + word * (random() % (from.size() / word + 1))] = value;
    }
    for (const auto& [at, value] : words) {
      target.put_word(at, value);
      for (BlockNumber source = 0; source < blocks.size(); ++source) {
        if (!blocks[source].contains(at)) continue;
        const uint64_t pointer = word == 4 ? value & UINT32_MAX : value;
        for (BlockNumber to = 0; to < blocks.size(); ++to) {
          if (!blocks[to].contains(Address(pointer))) continue;
          references.push_back({source, static_cast<uint32_t>((at - blocks[source].begin) / word),
                                to, Address(pointer) != blocks[to].begin});
        }
      }
    }
    std::sort(references.begin(), references.end());
  }

  static uint64_t end_of(const std::vector<HeapChunk>& segment) {
    return segment.back().begin + segment.back().size;
  }
  void map_around(uint64_t begin, uint64_t end) {
    begin &= ~uint64_t{0xfff};
    end = ((end + 64) | 0xfff) + 1;
    if (!target.address_space().mappings().empty()) {
      for (const Mapping& mapping : target.address_space().mappings()) {
        if (mapping.range.contains(Address(begin))) begin = mapping.range.end.value();
        if (mapping.range.contains(Address(end - 1))) end = mapping.range.begin.value();
      }
    }
    if (begin < end) target.map(Address(begin), end - begin);
  }
};

void check_first_words(Target& target, const RandomHeap& heap,
                       const std::vector<FirstWord>& words) {
  const auto blocks = heap.blocks();
  size_t next = 0;
  for (BlockNumber block = 0; block < blocks.size(); ++block) {
    uint64_t value = 0;
    const std::span bytes = std::as_writable_bytes(std::span(&value, 1));
    target.memory().read(blocks[block].begin, bytes.first(word_size(heap.machine)));
    if (next < words.size() && words[next].block == block) {
      CHECK(words[next].address == blocks[block].begin);
      CHECK(words[next].value == value);
      ++next;
    } else {
      CHECK(value == 0);  // in a page that was never touched
    }
  }
  CHECK(next == words.size());
}

std::thread start_thread(std::function<void()> body) {
  return std::thread(std::move(body));
}

std::vector<OneReference> scan(Target& target, const RandomHeap& heap,
                               const StartThread& start = {}) {
  BlockMap map(heap.machine, 1 << 30);
  heap.give_to(map, 1000);
  map.seal();
  REQUIRE(map.why_not().empty());
  Collector collector;
  FirstWordFilter all;
  all.add_vtables({Address(), Address(UINT64_MAX)});
  std::vector<FirstWord> words;
  scan_blocks(target, map, collector, {&all, [&](const FirstWord& word) { words.push_back(word); }},
              {}, nullptr, start);
  check_first_words(target, heap, words);
  CHECK(collector.next == map.blocks());
  return collector.all;
}

}  // namespace

TEST_CASE("the references of a heap are the words of its blocks that point to blocks") {
  std::mt19937_64 random(3);
  for (int i = 0; i < 60; ++i) {
    WrittenHeap written(random, i % 4 == 0 ? Machine::kI386 : Machine::kX86_64);
    CHECK(scan(written.target, written.heap) == written.references);
    FlatTarget flat(written.target);
    CHECK(scan(flat, written.heap) == written.references);
  }
}

TEST_CASE("words outside are those of a range that point to blocks, in ascending order") {
  std::mt19937_64 random(5);
  WrittenHeap written(random, Machine::kX86_64);
  const auto blocks = written.heap.blocks();
  REQUIRE(!blocks.empty());
  const Address data(0x400000);
  written.target.map(data, 0x10000);
  written.target.put_word(data + 8, blocks[0].begin.value());
  written.target.put_word(data + 0x8000, blocks.back().begin.value() + 1);
  written.target.put_word(data + 0x8008, 42);
  written.target.put_word(data + 0xfff8, blocks.back().end.value());
  BlockMap map(Machine::kX86_64, 1 << 30);
  written.heap.give_to(map, 1000);
  map.seal();
  std::vector<FoundWord> words;
  const auto scanned = scan_outside(written.target, map, {data, data + 0x10000},
                                    [&](const FoundWord& word) { words.push_back(word); });
  REQUIRE(words.size() == 2);
  CHECK(words[0].at == data + 8);
  CHECK(words[0].target == 0);
  CHECK(words[0].inside == 0);
  CHECK(words[1].at == data + 0x8000);
  CHECK(words[1].target == blocks.size() - 1);
  CHECK(words[1].inside != 0);
  CHECK(scanned.bytes == 3 * 0x1000);  // pages that were never touched are passed over
}

// As of AddressSanitizer's shadow memory, of which next to nothing is touched.
TEST_CASE("a scan leaps over terabytes that were never touched") {
  const Address begin(0x100000000000);
  constexpr uint64_t kSize = uint64_t{16} << 40;
  const Address block = begin + 0x10000;
  const Address places[] = {begin + 0x1008, begin + kSize / 2, begin + (kSize - 8)};
  SparseTarget target(Machine::kX86_64);
  target.map(begin, kSize);
  BlockMap map(Machine::kX86_64, 1 << 30);
  RandomHeap heap;
  heap.segments = {{{block.value(), 64, ChunkState::kUsed}}};
  heap.give_to(map, 1000);
  map.seal();
  for (const Address place : places) target.put_word(place, (block + 16).value());
  std::vector<Address> found;
  const auto scanned = scan_outside(target, map, {begin, begin + kSize},
                                    [&](const FoundWord& word) { found.push_back(word.at); });
  CHECK(found == std::vector<Address>(std::begin(places), std::end(places)));
  CHECK(scanned.bytes == 3 * 0x1000);
  CHECK(scanned.bytes_unreadable == 0);
  CHECK(target.states_read() < 4096);
}

TEST_CASE("a scan can be given up") {
  std::mt19937_64 random(3);
  WrittenHeap written(random, Machine::kX86_64);
  BlockMap map(Machine::kX86_64, 1 << 30);
  written.heap.give_to(map, 1000);
  map.seal();
  Collector collector;
  for (const StartThread& start : {StartThread(), StartThread(start_thread)}) {
    CHECK_THROWS_AS(
        scan_blocks(
            written.target, map, collector, {}, [](uint64_t) { throw 1; }, nullptr, start),
        int);
  }
}

TEST_CASE("memory that a core lists and does not have is counted") {
  static constexpr Address kBegin(0x10000000);
  static constexpr uint64_t kPage = 4096;
  struct PartlyDumped : FakeTarget {
    PartlyDumped() : FakeTarget(Machine::kX86_64) {
      map("10000000-10003000 rw-p 00000000 00:00 0 ");
      make_unreadable({kBegin + kPage, kBegin + 3 * kPage});
    }
    AddressRange next_readable(AddressRange range) override {
      return {std::min(range.begin, kBegin + kPage), std::min(range.end, kBegin + kPage)};
    }
  } target;
  MemoryPieces pieces(target);
  uint64_t received = 0;
  const auto receive = [&](Address, std::span<const std::byte> bytes) { received += bytes.size(); };
  pieces.read({kBegin, kBegin + 2 * kPage}, receive);
  pieces.read({kBegin + 2 * kPage, kBegin + 3 * kPage}, receive);
  CHECK_EQ(received, kPage);
  CHECK_EQ(pieces.bytes_read(), kPage);
  CHECK_EQ(pieces.bytes_unreadable(), 2 * kPage);
}

TEST_CASE("a second thread finds the same references") {
  std::mt19937_64 random(11);
  for (int i = 0; i < 20; ++i) {
    WrittenHeap written(random, i % 4 == 0 ? Machine::kI386 : Machine::kX86_64);
    CHECK(scan(written.target, written.heap, start_thread) == written.references);
    const auto refuse = [](const std::function<void()>&) -> std::thread {
      throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
    };
    CHECK(scan(written.target, written.heap, refuse) == written.references);
  }
}

TEST_CASE("pieces are used and retired in order, and looked up before") {
  constexpr uint64_t kMany = 1000;
  for (const bool has_thread : {true, false}) {
    std::array<std::atomic<bool>, kMany> looked_up{};
    std::array<std::atomic<uint64_t>, PiecePipeline::kUses> used{};
    uint64_t retired = 0;
    const auto use = [&](size_t which) {
      return [&used, &looked_up, which](const ScannedPiece& piece) {
        CHECK(looked_up.at(piece.from.value()));
        CHECK(piece.from == Address(used.at(which)));
        ++used.at(which);
      };
    };
    PiecePipeline pipeline(has_thread ? StartThread(start_thread) : StartThread(),
                           {[&](ScannedPiece& piece, unsigned thread) {
                              CHECK(thread < PiecePipeline::kThreads);
                              CHECK_FALSE(looked_up.at(piece.from.value()).exchange(true));
                            },
                            {use(0), use(1)},
                            [&](const ScannedPiece& piece) {
                              CHECK(piece.from == Address(retired));
                              ++retired;
                              for (const auto& done : used) CHECK(done >= retired);
                            }});
    CHECK(pipeline.has_thread() == has_thread);
    for (uint64_t i = 0; i < kMany; ++i) {
      ScannedPiece piece = pipeline.make_piece();
      CHECK(piece.words.empty());
      piece.from = Address(i);
      piece.words.append(std::vector<FoundReference>(3));
      pipeline.give(std::move(piece));
    }
    pipeline.finish();
    for (const auto& done : used) CHECK(done == kMany);
    CHECK(retired == kMany);
  }
}

TEST_CASE("references of a large block come in parts") {
  constexpr uint64_t kWords = 5 << 20;
  constexpr Address kTable(0x10000000);
  const std::vector<uint64_t> sizes = {32, kWords * 8 + 16, 32};
  const std::vector<ChunkState> states(3, ChunkState::kUsed);
  SparseTarget target(Machine::kX86_64);
  target.map(kTable, kWords * 8 + 0x1000);
  BlockMap map(Machine::kX86_64, 1 << 30);
  map.on_batch({0, 0, kTable, sizes, states});
  map.seal();
  std::vector<OneReference> expected;
  const Address table = kTable + 32 + 16;
  for (uint64_t i = 0; i < kWords; ++i) {
    // Not the last ones: then nothing is left for the last part.
    if (i % 3 == 0 || i > kWords - (1 << 20)) continue;
    target.put_word(table + i * 8, (kTable + 16).value());
    expected.push_back({1, static_cast<uint32_t>(i), 0, false});
  }
  target.put_word(table + kWords * 8 + 16, table.value());
  expected.push_back({2, 0, 1, false});
  for (const bool has_thread : {true, false}) {
    Collector collector;
    scan_blocks(target, map, collector, {}, {}, nullptr,
                has_thread ? StartThread(start_thread) : StartThread());
    CHECK(collector.next == 3);
    CHECK_FALSE(collector.goes_on);
    CHECK(collector.most <= (1 << 20) + (1 << 17));
    CHECK(collector.all == expected);
  }
}

TEST_CASE("what a step throws ends the work on pieces") {
  for (const bool has_thread : {true, false}) {
    for (const int failing : {0, 1, 2, 3}) {
      const auto step = [failing](int which) {
        return [failing, which](const ScannedPiece& piece) {
          if (which == failing && piece.from == Address(5)) throw 5;
        };
      };
      PiecePipeline pipeline(
          has_thread ? StartThread(start_thread) : StartThread(),
          {[&](ScannedPiece& piece, unsigned) { step(0)(piece); }, {step(1), step(2)}, step(3)});
      const auto give_all = [&] {
        for (uint64_t i = 0; i < 1000; ++i) {
          ScannedPiece piece = pipeline.make_piece();
          piece.from = Address(i);
          pipeline.give(std::move(piece));
        }
      };
      CHECK_THROWS_AS(give_all(), int);
    }
  }
  // What waits is dropped with it.
  const auto nothing = [](const ScannedPiece&) {};
  PiecePipeline dropped(start_thread,
                        {[](ScannedPiece&, unsigned) {}, {nothing, nothing}, nothing});
  dropped.give(dropped.make_piece());
}
