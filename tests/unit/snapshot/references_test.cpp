#include <doctest/doctest.h>

#include "base/error.h"
#include "snapshot/reference_block.h"
#include "snapshot_sample.h"

using namespace heapsnap;
using namespace heapsnap::test;

namespace {

// References block by block, as a batch of any size gives them.
struct OwnedReferences final : ReferenceSink {
  struct One {
    uint32_t offset = 0;
    BlockNumber target = 0;
    uint8_t interior = 0;
    bool operator==(const One&) const = default;
  };
  std::vector<std::vector<One>> blocks;

  void on_references(const ReferenceBatch& batch) override {
    size_t reference = 0;
    for (size_t i = 0; i < batch.counts.size(); ++i) {
      const size_t block = batch.first + i;
      REQUIRE(block <= blocks.size());
      if (block == blocks.size()) blocks.emplace_back();
      for (uint32_t k = 0; k < batch.counts[i]; ++k, ++reference) {
        blocks[block].push_back(
            {batch.offsets[reference], batch.targets[reference], batch.interior[reference]});
      }
    }
  }

  void give_to(ReferenceSink& sink, size_t batch_size) const {
    for (size_t first = 0; first < blocks.size(); first += batch_size) {
      std::vector<uint32_t> counts, offsets;
      std::vector<BlockNumber> targets;
      std::vector<uint8_t> interior;
      for (size_t i = first; i < std::min(first + batch_size, blocks.size()); ++i) {
        counts.push_back(static_cast<uint32_t>(blocks[i].size()));
        for (const One& one : blocks[i]) {
          offsets.push_back(one.offset);
          targets.push_back(one.target);
          interior.push_back(one.interior);
        }
      }
      sink.on_references({static_cast<BlockNumber>(first), counts, offsets, targets, interior});
    }
  }
};

OwnedReferences random_references(std::mt19937_64& random, size_t blocks, size_t most) {
  OwnedReferences all;
  for (size_t i = 0; i < blocks; ++i) {
    auto& block = all.blocks.emplace_back();
    uint32_t offset = static_cast<uint32_t>(random() % 3);
    for (size_t k = random() % (most + 1); k != 0; --k) {
      block.push_back({offset, static_cast<BlockNumber>(random() % blocks),
                       static_cast<uint8_t>(random() % 2)});
      offset += 1 + static_cast<uint32_t>(random() % (random() % 7 == 0 ? 1000 : 4));
    }
  }
  return all;
}

void check_round_trip(const OwnedReferences& wrote, size_t batch_size) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("a.hsnap");
  SnapshotWriter writer({path, false});
  wrote.give_to(writer, batch_size);
  SnapshotMetadata metadata = full_metadata(1, 1);
  metadata.references.emplace();
  metadata.references->is_complete = true;
  metadata.references->blocks = static_cast<BlockNumber>(wrote.blocks.size());
  writer.finish(metadata);
  const SnapshotReader reader = SnapshotReader::open(path);
  CHECK(reader.has_references());
  CHECK(reader.metadata().references == metadata.references);
  OwnedReferences read;
  reader.read_references(read);
  CHECK((read.blocks == wrote.blocks));
}

}  // namespace

TEST_CASE("references come back as they were") {
  std::mt19937_64 random(1);
  for (const size_t blocks : {1, 2, 1000, 300'000}) {
    check_round_trip(random_references(random, blocks, 3), 1 + random() % 100'000);
  }
}

TEST_CASE("a block with very many references is split and comes back whole") {
  std::mt19937_64 random(2);
  OwnedReferences all = random_references(random, 10, 2);
  for (uint32_t i = 0; i < 700'000; ++i) all.blocks[4].push_back({10'000 + i, i % 10, 0});
  all.blocks[0].clear();
  for (uint32_t i = 0; i < 300'000; ++i) all.blocks[0].push_back({2 * i, 9, 1});
  check_round_trip(all, 10);
}

TEST_CASE("blocks come back that fill sections to the last place") {
  constexpr uint32_t kSection = 64 << 10;
  OwnedReferences all;
  for (const uint32_t count : {kSection, 0U, 1U, kSection - 1, 1U, kSection, kSection + 1, 0U,
                               kSection - 1, 2 * kSection, 0U, kSection - 1, 1U}) {
    auto& block = all.blocks.emplace_back();
    for (uint32_t i = 0; i < count; ++i)
      block.push_back({i, i % 13, i % 5 == 0 ? uint8_t{1} : uint8_t{0}});
  }
  for (const size_t batch_size : {1, 2, 5, 100}) check_round_trip(all, batch_size);
}

TEST_CASE("roots and types come back as they were") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("a.hsnap");
  const std::vector<RootPlace> places{
      {RootKind::kVariable, 0, "/bin/server", "g_cache", Address(0x4010), 8, 0x4010},
      {RootKind::kStack, 4711, "/bin/server", "handle_request()", Address(0x7ff000), 0, 0},
      {RootKind::kRegister, 4711, "", "rbx", Address(), 0, 0},
      {RootKind::kLocal, 4711, "/bin/python", "x in f() at a.py:1", Address(0x7ff100), 8, 0}};
  const std::vector<Root> roots{{0, 0, 7, false}, {1, 24, 3, true}, {2, 0, 9, false}};
  const std::vector<BlockType> names{{"", "", TypeSource::kUnknown},
                                     {"Session", "/bin/server", TypeSource::kVtable}};
  std::vector<TypeNumber> types(300'000);
  for (size_t i = 0; i < types.size(); i += 3) types[i] = 1;
  SnapshotWriter writer({path, false});
  for (const Root& root : roots) writer.on_root(root);
  writer.on_root_places(places);
  writer.on_block_types(types);
  writer.on_type_names(names);
  const std::vector<SlackWords> slack{{0, 3}, {5, 9, 2, 4}, {299'999, 70'000}};
  writer.on_slack_words(slack);
  const std::vector<UnusedWord> unused{{5, 7}, {5, 11}, {299'999, 70'000}};
  writer.on_unused_words(unused);
  const std::vector<ContainerWords> containers{
      {5, 7, {}, 3}, {299'999, 70'000, {}, 1}, {kNoBlock, 0, Address(0x7ffc00000010), 2}};
  writer.on_containers(containers);
  SnapshotMetadata metadata = full_metadata(1, 1);
  metadata.references.emplace();
  metadata.references->blocks = 300'000;
  writer.finish(metadata);

  const SnapshotReader reader = SnapshotReader::open(path);
  CHECK_FALSE(reader.has_references());
  CHECK((reader.read_root_places() == places));
  std::vector<Root> read_roots;
  reader.read_roots(places.size(), [&](const Root& root) { read_roots.push_back(root); });
  CHECK((read_roots == roots));
  CHECK((reader.read_type_names() == names));
  CHECK((reader.read_slack_words() == slack));
  CHECK((reader.read_unused_words() == unused));
  CHECK((reader.read_containers() == containers));
  std::vector<TypeNumber> read_types;
  reader.read_block_types(names.size(), [&](BlockNumber first, std::span<const TypeNumber> some) {
    CHECK(first == read_types.size());
    read_types.insert(read_types.end(), some.begin(), some.end());
  });
  CHECK((read_types == types));
  CHECK_THROWS_AS(reader.read_roots(2, [](const Root&) {}), Error);
  CHECK_THROWS_AS(reader.read_block_types(1, [](BlockNumber, auto) {}), Error);
}

namespace {

// Whether a file of 10 blocks is read into which `write` has written.
template <typename Write, typename Read>
bool is_read(const Write& write, const Read& read) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("a.hsnap");
  SnapshotWriter writer({path, false});
  write(writer);
  SnapshotMetadata metadata = full_metadata(1, 1);
  metadata.references.emplace();
  metadata.references->blocks = 10;
  writer.finish(metadata);
  try {
    read(SnapshotReader::open(path));
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

TEST_CASE("slack words of blocks that do not ascend or do not exist are refused") {
  const auto is_good = [](const std::vector<SlackWords>& slack) {
    return is_read([&](SnapshotWriter& writer) { writer.on_slack_words(slack); },
                   [](const SnapshotReader& reader) { reader.read_slack_words(); });
  };
  CHECK(is_good({{3, 1}, {9, 0}}));
  CHECK_FALSE(is_good({{3, 1}, {3, 2}}));
  CHECK_FALSE(is_good({{4, 1}, {3, 2}}));
  CHECK_FALSE(is_good({{3, 1}, {10, 0}}));
}

TEST_CASE("unused words that do not ascend, or of blocks that do not exist, are refused") {
  const auto is_good = [](const std::vector<UnusedWord>& unused) {
    return is_read([&](SnapshotWriter& writer) { writer.on_unused_words(unused); },
                   [](const SnapshotReader& reader) { reader.read_unused_words(); });
  };
  CHECK(is_good({{3, 1}, {3, 2}, {9, 0}}));
  CHECK_FALSE(is_good({{3, 1}, {3, 1}}));
  CHECK_FALSE(is_good({{3, 2}, {3, 1}}));
  CHECK_FALSE(is_good({{4, 1}, {3, 2}}));
  CHECK_FALSE(is_good({{3, 1}, {10, 0}}));
}

TEST_CASE("containers that do not ascend, or in blocks that do not exist, are refused") {
  const auto is_good = [](const std::vector<ContainerWords>& containers) {
    return is_read([&](SnapshotWriter& writer) { writer.on_containers(containers); },
                   [](const SnapshotReader& reader) { reader.read_containers(); });
  };
  CHECK(is_good({{3, 1, {}, 2}, {3, 2, {}, 2}, {kNoBlock, 0, Address(8), 1}}));
  CHECK_FALSE(is_good({{3, 2, {}, 2}, {3, 1, {}, 2}}));
  CHECK_FALSE(is_good({{kNoBlock, 0, Address(8), 1}, {3, 1, {}, 2}}));
  CHECK_FALSE(is_good({{3, 1, {}, 2}, {3, 1, {}, 2}}));
  CHECK_FALSE(is_good({{10, 1, {}, 2}}));
  CHECK_FALSE(is_good({{3, 1, {}, 0}}));
  CHECK_FALSE(is_good({{3, 1, Address(8), 2}}));
  CHECK_FALSE(is_good({{kNoBlock, 1, Address(8), 2}}));
}

TEST_CASE("columns of references that do not fit together are refused") {
  struct Parts {
    std::vector<uint8_t> first{0}, counts{1, 0}, large_counts, offsets{3}, large_offsets,
        targets{2, 0, 0, 0}, interior{0};
    uint32_t items = 2;
    BlockNumber blocks = 2;
    uint64_t most = 100;
  };
  const auto is_read = [](auto change) {
    Parts parts;
    change(parts);
    const auto bytes = [](const std::vector<uint8_t>& all) {
      return std::as_bytes(std::span(all));
    };
    ReferenceBlockReader reader(parts.blocks, parts.most);
    OwnedReferences sink;
    try {
      reader.read(
          {bytes(parts.first), bytes(parts.counts), bytes(parts.large_counts), bytes(parts.offsets),
           bytes(parts.large_offsets), bytes(parts.targets), bytes(parts.interior)},
          parts.items, "test", sink);
      reader.finish("test");
      return true;
    } catch (const Error&) {
      return false;
    }
  };
  CHECK(is_read([](Parts&) {}));
  CHECK_FALSE(is_read([](Parts& parts) { parts.first = {1}; }));
  CHECK_FALSE(is_read([](Parts& parts) { parts.first = {0, 0}; }));
  CHECK_FALSE(is_read([](Parts& parts) { parts.first = {}; }));
  CHECK_FALSE(is_read([](Parts& parts) { parts.items = 3; }));
  CHECK_FALSE(is_read([](Parts& parts) { parts.items = 0, parts.counts = {}; }));
  CHECK_FALSE(is_read([](Parts& parts) { parts.counts = {2, 0}; }));
  CHECK_FALSE(is_read([](Parts& parts) { parts.counts = {255, 0}; }));
  CHECK_FALSE(is_read([](Parts& parts) { parts.large_counts = {1}; }));
  CHECK_FALSE(is_read([](Parts& parts) { parts.offsets = {}; }));
  CHECK_FALSE(is_read([](Parts& parts) { parts.offsets = {255}; }));
  CHECK_FALSE(is_read([](Parts& parts) { parts.large_offsets = {1}; }));
  CHECK_FALSE(is_read([](Parts& parts) { parts.targets = {2, 0, 0}; }));
  CHECK_FALSE(is_read([](Parts& parts) { parts.targets = {4, 0, 0, 0}; }));
  CHECK_FALSE(is_read([](Parts& parts) { parts.interior = {}; }));
  CHECK_FALSE(is_read([](Parts& parts) { parts.blocks = 3; }));
  CHECK_FALSE(is_read([](Parts& parts) { parts.most = 0; }));
  CHECK_FALSE(is_read([](Parts& parts) {
    parts.counts = {2, 0}, parts.offsets = {3, 0}, parts.targets.resize(8);
  }));
  CHECK(is_read([](Parts& parts) {
    parts.counts = {2, 0}, parts.offsets = {3, 1}, parts.targets = {2, 0, 0, 0, 0, 0, 0, 0};
  }));
}
