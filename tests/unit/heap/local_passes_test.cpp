// Passes over memory of ours: what they tell, and where they stop.
#include "heap/in_place/local_passes.h"

#include <doctest/doctest.h>

#include <cstring>
#include <random>

using namespace heapsnap;

namespace {

constexpr Address kBase(0x10000);

// Bytes at kBase; those from `second` on lie elsewhere.
class Memory {
 public:
  explicit Memory(size_t size, size_t second = 0)
      : first_(second == 0 ? size : second), second_(size - first_.size()) {}

  void put(uint64_t offset, uint64_t value) {
    auto& piece = offset < first_.size() ? first_ : second_;
    if (offset >= first_.size()) offset -= first_.size();
    std::memcpy(piece.data() + offset, &value, sizeof(value));
  }
  LocalPasses passes() const {
    return LocalPasses([this](Address address) -> std::span<const std::byte> {
      const uint64_t offset = address - kBase;
      if (offset < first_.size()) return std::span(first_).subspan(offset);
      if (offset - first_.size() < second_.size()) {
        return std::span(second_).subspan(offset - first_.size());
      }
      return {};
    });
  }

 private:
  std::vector<std::byte> first_;
  std::vector<std::byte> second_;
};

ChunkScan scan_of(uint64_t size) {
  ChunkScan scan;
  scan.at = kBase;
  scan.limit = kBase + size - 16;
  scan.readable_end = kBase + size;
  scan.min_size = 32;
  scan.impossible = 8 | 2;
  return scan;
}

constexpr uint32_t kFree = HeapPasses::kFree;

// Chunks of 48 bytes from kBase on, all in use.
Memory chunks_of_48(size_t count) {
  Memory memory(count * 48 + 16);
  for (size_t i = 0; i <= count; ++i) memory.put(i * 48 + 8, 48 | 1);
  return memory;
}

ListedChunks follow(HeapPasses& passes, ListScan& list, std::span<const AddressRange> heaps) {
  return passes.follow(std::span(&list, 1), heaps)[0];
}

std::vector<uint32_t> sizes(std::span<const uint32_t> answers) {
  return {answers.begin(), answers.end()};
}

}  // namespace

TEST_CASE("a scan tells sizes and what is free, up to the limit") {
  Memory memory = chunks_of_48(5);
  memory.put(2 * 48 + 8, 48);  // the chunk before it is free
  memory.put(2 * 48, 48);
  LocalPasses passes = memory.passes();
  ChunkScan scan = scan_of(5 * 48 + 16);
  CHECK(sizes(passes.scan(scan)) == std::vector<uint32_t>{48, 48 | kFree, 48, 48, 48});
  CHECK(scan.at == kBase + 5 * 48);
  CHECK(passes.scan(scan).empty());
}

TEST_CASE("a scan stops before what is not sound") {
  Memory memory = chunks_of_48(5);
  ChunkScan scan = scan_of(5 * 48 + 16);
  size_t told = 3;
  SUBCASE("a size that is too small") {
    memory.put(3 * 48 + 8, 17);
  }
  SUBCASE("a size that passes the limit") {
    memory.put(3 * 48 + 8, 48 * 3 | 1);
  }
  SUBCASE("a size of all ones") {
    memory.put(3 * 48 + 8, ~uint64_t{0xe});
  }
  SUBCASE("a bit that no size has") {
    memory.put(3 * 48 + 8, 48 | 1 | 2);
  }
  SUBCASE("a footer that does not agree") {
    memory.put(3 * 48 + 8, 48);
    memory.put(3 * 48, 64);
    told = 2;
  }
  SUBCASE("the end of what is readable") {
    scan.readable_end = kBase + 3 * 48 + 16;
  }
  SUBCASE("the limit") {
    scan.limit = kBase + 3 * 48;
  }
  LocalPasses passes = memory.passes();
  CHECK(passes.scan(scan).size() == told);
  CHECK(scan.at == kBase + told * 48);
}

TEST_CASE("a scan of memory that is not there, or has no room for a header, tells nothing") {
  Memory memory = chunks_of_48(5);
  LocalPasses passes = memory.passes();
  for (const uint64_t at : {uint64_t{0}, ~uint64_t{0}, ~uint64_t{15}, kBase.value() - 16,
                            kBase.value() + 5 * 48 + 8, kBase.value() + 5 * 48 + 16}) {
    for (const uint64_t end :
         {uint64_t{0}, uint64_t{8}, kBase.value() + 5 * 48 + 16, ~uint64_t{0}}) {
      ChunkScan scan = scan_of(5 * 48 + 16);
      scan.at = Address(at);
      scan.limit = Address(~uint64_t{0});
      scan.readable_end = Address(end);
      CHECK(passes.scan(scan).empty());
      CHECK(scan.at == Address(at));
    }
  }
}

TEST_CASE("a chunk too large for an answer is left to the caller") {
  constexpr uint64_t kHuge = uint64_t{1} << 32;
  Memory memory = chunks_of_48(2);
  memory.put(48 + 8, kHuge | 1);
  LocalPasses passes = memory.passes();
  ChunkScan scan = scan_of(2 * 48 + 16);
  scan.limit = scan.readable_end = kBase + 2 * kHuge;
  CHECK(passes.scan(scan).size() == 1);
}

TEST_CASE("lists are followed through all heaps, with what they must hold") {
  // Chunks at 0, 64, 128 ... of which list: 0 -> 192 -> 64 -> 320, in two pieces of memory.
  Memory memory(512, 256);
  const std::vector<uint64_t> order{0, 192, 64, 320};
  ListScan list;
  list.chunk = kBase;
  const uint64_t bin = 0x777770;
  const auto put_single = [&](bool is_protected) {
    for (size_t i = 0; i < order.size(); ++i) {
      const uint64_t next = i + 1 < order.size() ? kBase.value() + order[i + 1] : 0;
      const uint64_t at = kBase.value() + order[i] + 16;
      memory.put(order[i] + 8, 64 | 1);
      memory.put(order[i] + 16, is_protected ? next ^ (at >> 12) : next);
    }
    list.size = 64;
    list.is_protected = is_protected;
  };
  const auto put_double = [&] {
    for (size_t i = 0; i < order.size(); ++i) {
      const uint64_t next = i + 1 < order.size() ? kBase.value() + order[i + 1] : bin;
      memory.put(order[i] + 16, next);
      memory.put(order[i] + 24, i == 0 ? bin : kBase.value() + order[i - 1]);
    }
    list.previous = list.following = Address(bin);
  };
  const std::vector<AddressRange> heaps{{kBase, kBase + 256}, {kBase + 256, kBase + 512}};
  size_t told = order.size();
  SUBCASE("plain") {
    put_single(false);
  }
  SUBCASE("protected") {
    put_single(true);
  }
  SUBCASE("with back links") {
    put_double();
  }
  SUBCASE("a chunk of another size") {
    put_single(true);
    memory.put(192 + 8, 80 | 1);
    told = 1;
  }
  SUBCASE("a link that points between chunks") {
    put_single(false);
    memory.put(16, kBase.value() + 200);
    told = 1;
  }
  SUBCASE("a link that leads out of the heaps") {
    put_single(false);
    memory.put(64 + 16, kBase.value() + 512);
    told = 3;
  }
  SUBCASE("a back link to somebody else") {
    put_double();
    memory.put(64 + 24, kBase.value());
    told = 2;
  }
  LocalPasses passes = memory.passes();
  const auto links = follow(passes, list, heaps).forward;
  REQUIRE(links.size() == told);
  for (size_t i = 0; i < told; ++i) CHECK(links[i] == kBase.value() + order[i]);
  CHECK(list.is_done() == (told == order.size()));
  CHECK(list.previous == kBase + order[told - 1]);
}

TEST_CASE("a list with back links is followed from both ends, each chunk once") {
  constexpr Address kBin(0x777770);
  for (size_t count = 0; count < 9; ++count) {
    CAPTURE(count);
    Memory memory(count * 64 + 64);
    const auto chunk = [&](size_t i) { return i < count ? kBase + i * 64 : kBin; };
    for (size_t i = 0; i < count; ++i) {
      memory.put(i * 64 + 16, chunk(i + 1).value());
      memory.put(i * 64 + 24, (i == 0 ? kBin : chunk(i - 1)).value());
    }
    ListScan list;
    list.chunk = chunk(0);
    list.tail = count == 0 ? kBin : chunk(count - 1);
    list.previous = list.following = kBin;
    const std::vector<AddressRange> heaps{{kBase, kBase + count * 64 + 64}};
    size_t odd =
        count;  // the chunk whose forward link is damaged: the way back does not come to it
    SUBCASE("sound") {}
    SUBCASE("damaged") {
      if (count < 4) continue;
      odd = count - 2;
      memory.put(odd * 64 + 16, 0x4242);
    }
    LocalPasses passes = memory.passes();
    const ListedChunks told = follow(passes, list, heaps);
    std::vector<uint64_t> all(told.forward.begin(), told.forward.end());
    if (odd == count) {
      CHECK(told.forward.size() == (count + 1) / 2);
      CHECK(list.is_done());
      all.insert(all.end(), told.backward.rbegin(), told.backward.rend());
      REQUIRE(all.size() == count);
    } else {
      CHECK(told.backward.size() == 1);
      CHECK(list.tail.is_null());
      REQUIRE(all.size() == odd + 1);
      CHECK(list.chunk == Address(0x4242));
      CHECK(list.following == chunk(count - 1));
    }
    for (size_t i = 0; i < all.size(); ++i) CHECK(all[i] == chunk(i).value());
  }
}

TEST_CASE("lists are followed side by side, each as it is alone") {
  // List i of HeapPasses::kMostLists has i * i chunks, those of all lists mixed; one is damaged.
  constexpr size_t kLists = HeapPasses::kMostLists;
  constexpr size_t kDamaged = 7;
  std::vector<std::vector<uint64_t>> chunks(kLists);
  uint64_t size = 0;
  for (size_t round = 0; round < kLists * kLists; ++round) {
    for (size_t i = 0; i < kLists; ++i) {
      if (chunks[i].size() == i * i) continue;
      chunks[i].push_back(kBase.value() + size);
      size += 64;
    }
  }
  Memory memory(size);
  std::vector<ListScan> lists(kLists);
  for (size_t i = 0; i < kLists; ++i) {
    for (size_t k = 0; k < chunks[i].size(); ++k) {
      const uint64_t offset = chunks[i][k] - kBase.value();
      memory.put(offset + 8, 64 | 1);
      memory.put(offset + 16, k + 1 < chunks[i].size() ? chunks[i][k + 1] : 0);
    }
    lists[i].size = 64;
    if (!chunks[i].empty()) lists[i].chunk = Address(chunks[i][0]);
  }
  memory.put(chunks[kDamaged][3] - kBase.value() + 8, 80 | 1);
  const std::vector<AddressRange> heaps{{kBase, kBase + size}};

  LocalPasses passes = memory.passes();
  const auto told = passes.follow(lists, heaps);
  REQUIRE(told.size() == kLists);
  for (size_t i = 0; i < kLists; ++i) {
    CAPTURE(i);
    CHECK(lists[i].is_done() == (i != kDamaged));
    const size_t sound = i == kDamaged ? 3 : chunks[i].size();
    CHECK(std::vector(told[i].forward.begin(), told[i].forward.end()) ==
          std::vector(chunks[i].begin(), chunks[i].begin() + static_cast<ptrdiff_t>(sound)));
  }
  lists.emplace_back();
  CHECK(passes.follow(lists, heaps).empty());
}

TEST_CASE("a ring costs one call a bounded number of links") {
  Memory memory(64);
  memory.put(8, 64 | 1);
  memory.put(16, kBase.value());
  ListScan list;
  list.chunk = kBase;
  list.size = 64;
  LocalPasses passes = memory.passes();
  const std::vector<AddressRange> heaps{{kBase, kBase + 64}};
  const size_t told = follow(passes, list, heaps).forward.size();
  CHECK(told > 0);
  CHECK(told <= 1 << 16);
  CHECK(list.chunk == kBase);
  CHECK(follow(passes, list, {}).forward.empty());
}

TEST_CASE("whatever the bytes are, passes stay inside them") {
  std::mt19937_64 random(1);
  for (int round = 0; round < 2000; ++round) {
    Memory memory(1024, random() % 2 == 0 ? 0 : 512);
    for (uint64_t offset = 0; offset < 1024; offset += 8) {
      const uint64_t inside = kBase.value() + random() % 64 * 16;
      memory.put(offset, random() % 4 == 0 ? inside : random() % 8 * 16 | random() % 8);
    }
    LocalPasses passes = memory.passes();
    ChunkScan scan = scan_of(1024);
    scan.at = kBase + random() % 1100;
    scan.limit = kBase + random() % 2048;
    scan.readable_end = kBase + random() % 2048;
    Address at = scan.at;
    for (const uint32_t answer : passes.scan(scan)) at += answer & ~kFree;
    CHECK(scan.at == at);
    ListScan list;
    list.chunk = kBase + random() % 64 * 16;
    list.size = random() % 3 * 32;
    const std::vector<AddressRange> heaps{{kBase, kBase + random() % 1024},
                                          {kBase + 1024, kBase + 4096}};
    if (list.size == 0) list.tail = kBase + random() % 64 * 16;
    const ListedChunks told = follow(passes, list, heaps);
    for (const auto& way : {told.forward, told.backward}) {
      for (const uint64_t chunk : way) CHECK(heaps[0].contains(Address(chunk), 32));
    }
  }
}
