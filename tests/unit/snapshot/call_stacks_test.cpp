// Snapshots of tracked processes: the tracker's record, the stacks of chunks, and the stacks.
#include <doctest/doctest.h>

#include "base/error.h"
#include "snapshot/table.h"
#include "snapshot_sample.h"

using namespace heapsnap;
using namespace heapsnap::test;

namespace {

std::vector<std::byte> written(const SnapshotMetadata& metadata, const RecordedStacks* stacks,
                               const std::vector<OwnedBatch>& batches = {}) {
  const TemporaryDirectory directory;
  SnapshotWriter writer({directory.file("a"), false});
  for (const OwnedBatch& batch : batches) writer.on_batch(batch.view());
  if (stacks != nullptr) {
    writer.on_call_stacks(stacks->stacks);
    writer.on_symbols(stacks->symbols);
  }
  writer.finish(metadata);
  return read_file(directory.file("a"));
}

SnapshotMetadata tracked_metadata() {
  SnapshotMetadata metadata = full_metadata(2, 3);
  metadata.tracker = full_tracker();
  return metadata;
}

// What reading these stacks says; empty when nothing.
std::string reading_error(const RecordedStacks& stacks) {
  const auto bytes = written(tracked_metadata(), &stacks);
  try {
    SnapshotReader::from_bytes(bytes, "x").read_call_stacks();
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kBadInput);
    return error.why();
  }
  return "";
}

}  // namespace

TEST_CASE("the tracker's record comes back field by field") {
  const auto bytes = written(tracked_metadata(), nullptr);
  const SnapshotReader reader = SnapshotReader::from_bytes(bytes, "x");
  REQUIRE(reader.metadata().tracker.has_value());
  CHECK(*reader.metadata().tracker == full_tracker());
  CHECK(reader.read_call_stacks().stacks.sites.empty());
}

TEST_CASE("a process that was not tracked has no record, no stacks and no columns of them") {
  std::mt19937_64 random(5);
  const OwnedBatch batch = random_batch(random, Address(0x555500000000), 500, 16, 300, 4);
  const auto bytes = written(full_metadata(2, 3), nullptr, {batch});
  const SnapshotReader reader = SnapshotReader::from_bytes(bytes, "x");
  CHECK_FALSE(reader.metadata().tracker.has_value());
  const RecordedStacks stacks = reader.read_call_stacks();
  CHECK((stacks.stacks.nodes.empty() && stacks.symbols.is_empty()));
  struct NoStacks final : ChunkSink {
    void on_batch(const ChunkBatch& one) override {
      CHECK((one.stacks.empty() && one.slacks.empty()));
    }
    void on_mmapped(const MmappedChunk&) override {}
  } sink;
  reader.read_chunks(sink);
}

TEST_CASE("each chunk comes back with its stack and slack, across blocks") {
  std::mt19937_64 random(6);
  std::vector<OwnedBatch> batches;
  batches.push_back(random_batch(random, Address(0x555500000000), 300'000, 16, 300, 4));
  add_stacks(random, batches.back());
  batches.push_back(random_batch(random, batches.back().end(), 100, 16, 300, 4));  // without
  batches.push_back(random_batch(random, batches.back().end() + 0x100, 5000, 16, 300, 4));
  add_stacks(random, batches.back());
  batches.push_back(random_batch(random, Address(0x7f0000000000), 50, 16, 300, 4));
  batches.back().segment = 1;
  ChunkCollector expected;
  for (const OwnedBatch& batch : batches) expected.on_batch(batch.view());
  const auto bytes = written(tracked_metadata(), nullptr, batches);
  CHECK(read_all(SnapshotReader::from_bytes(bytes, "x")).chunks == expected.chunks);
}

TEST_CASE("call stacks and their names come back") {
  const RecordedStacks wrote = full_call_stacks();
  const auto bytes = written(tracked_metadata(), &wrote);
  const RecordedStacks read = SnapshotReader::from_bytes(bytes, "x").read_call_stacks();
  CHECK(read.stacks.nodes == wrote.stacks.nodes);
  CHECK(read.stacks.sites == wrote.stacks.sites);
  CHECK(read.symbols.strings() == wrote.symbols.strings());
  CHECK(read.symbols.places() == wrote.symbols.places());
  CHECK(read.symbols.frames() == wrote.symbols.frames());
  const auto frames = read.symbols.at(0, Address(0x401000 + 77));
  REQUIRE(frames.size() == 2);
  CHECK(read.symbols.text(frames[0].function) == "inner");
  CHECK(frames[0].is_inlined);
}

TEST_CASE("many frames are several sections") {
  RecordedStacks wrote;
  wrote.stacks.nodes.resize(tracker::kFirstNode);
  std::mt19937_64 random(9);
  for (uint32_t i = 0; i < 300'000; ++i) {
    wrote.stacks.nodes.push_back(
        {static_cast<uint32_t>(random() % wrote.stacks.nodes.size()), 0, Address(random())});
  }
  const auto bytes = written(tracked_metadata(), &wrote);
  CHECK(SnapshotReader::from_bytes(bytes, "x").read_call_stacks().stacks.nodes ==
        wrote.stacks.nodes);
}

TEST_CASE("ids that lead nowhere are refused") {
  CHECK(reading_error(full_call_stacks()) == "");
  RecordedStacks stacks = full_call_stacks();
  SUBCASE("a caller that comes later") {
    stacks.stacks.nodes[20].parent = 20;
  }
  SUBCASE("a module that is not there") {
    stacks.stacks.nodes[20].module = 2;
  }
  SUBCASE("a module below none") {
    stacks.stacks.nodes[20].module = -2;
  }
  SUBCASE("a stack that begins nowhere") {
    stacks.stacks.sites[3].node = static_cast<uint32_t>(stacks.stacks.nodes.size());
  }
  SUBCASE("a name that is not there") {
    const SourceFrame frame{99, 0, 0, 0, false};
    stacks.symbols.add(0, Address(0x9999), {&frame, 1});
  }
  CHECK(reading_error(stacks) != "");
}

TEST_CASE("a module that ends before it begins is refused") {
  SnapshotMetadata metadata = tracked_metadata();
  metadata.tracker->modules[0].range.begin = Address(~0ULL);
  const auto bytes = written(metadata, nullptr);
  CHECK_THROWS_AS(SnapshotReader::from_bytes(bytes, "x"), Error);
}
