// A target that forges the tables of its tracker: what is read of them makes a snapshot that can be
// read.
#include <doctest/doctest.h>

#include <algorithm>

#include "snapshot/snapshot_writer.h"
#include "snapshot_sample.h"
#include "tests/unit/tracking/synthetic_tracker.h"
#include "tracking/tracking_reader.h"

using namespace heapsnap;
using namespace heapsnap::test;

namespace {

// What comes back of a snapshot with this.
SnapshotReader written(const std::string& path, const SnapshotMetadata& metadata,
                       const CallStacks& stacks) {
  SnapshotWriter writer(SnapshotOutput{path, true});
  writer.on_call_stacks(stacks);
  writer.finish(metadata);
  return SnapshotReader::open(path);
}

// Makes `table` of `entries` entries out of its first chunk, over and over.
void repeat_first_chunk(SyntheticTracker& made, tracker::ChunkedTable& table, uint64_t entries) {
  const uint64_t chunk = *made.target.memory().read_value<uint64_t>(Address(table.chunks));
  const std::vector<uint64_t> chunks(entries >> SyntheticTracker::kChunkShift, chunk);
  const Address at = made.places()[1].end.align_up(4096);
  made.target.put_bytes(at, std::as_bytes(std::span(chunks)));
  table.chunks = at.value();
  table.chunk_capacity = static_cast<uint32_t>(chunks.size());
  table.count = entries;
}

}  // namespace

TEST_CASE("a table of 65,536 modules with paths of 4 KiB") {
  SyntheticTracker made;
  for (unsigned i = 0; i < 1U << SyntheticTracker::kChunkShift; ++i) {
    made.module("/" + std::string(kMaxModulePath - 1, 'm'), 0, {Address(0x1000), Address(0x2000)});
  }
  made.finish();
  repeat_first_chunk(made, made.directory.modules, kMaxTrackedModules);
  made.write_directory();
  const Tracking tracking = read_tracking(made.target.memory(), made.directory_address(), 0);
  CHECK(tracking.record.modules.size() == kMaxTrackedModules);
  CHECK(tracking.record.notes.size() == 1);

  SnapshotMetadata metadata = full_metadata(1, 1);
  metadata.tracker = tracking.record;
  const TemporaryDirectory directory;
  const auto reader = written(directory.file("a.hsnap"), metadata, tracking.stacks);
  CHECK(reader.metadata().tracker == tracking.record);
  CHECK(reader.read_call_stacks().stacks.nodes.size() == tracking.stacks.nodes.size());
}

TEST_CASE("a chain of more frames than any stack has is cut, and the snapshot says so") {
  SyntheticTracker made;
  constexpr uint32_t kFrames = 3 * tracker::kFramesAtMost;
  uint32_t node = tracker::kRootComplete;
  for (uint32_t i = 0; i < kFrames; ++i) node = made.node(node, tracker::kNoModule, 0x1000 + i);
  const uint32_t stack = made.stack({node, kFrames, 0, 1, 0, 16, 0});
  made.finish();
  const Tracking tracking = read_tracking(made.target.memory(), made.directory_address(), 0);
  CHECK(tracking.record.notes.size() == 1);
  SnapshotMetadata metadata = full_metadata(1, 1);
  metadata.tracker = tracking.record;
  const TemporaryDirectory directory;
  const auto reader = written(directory.file("a.hsnap"), metadata, tracking.stacks);
  const CallStacks stacks = reader.read_call_stacks().stacks;
  size_t frames = 0;
  const StackEnd end = stacks.walk(stacks.sites[stack].node, [&](uint32_t) { ++frames; });
  CHECK(frames == tracker::kFramesAtMost);
  CHECK(end == StackEnd::kDepthLimit);
}

TEST_CASE("65,530 mappings of files with paths of 4 KiB") {
  SnapshotMetadata metadata = full_metadata(1, 1);
  metadata.mappings.clear();
  metadata.usage.clear();
  for (uint64_t i = 0; i < 65530; ++i) {
    Mapping mapping;
    mapping.range = {Address((i + 1) << 16), Address(((i + 1) << 16) + 4096)};
    mapping.path = "/" + std::string(4080, 'd') + "/" + std::to_string(i);
    metadata.mappings.push_back(std::move(mapping));
  }
  const TemporaryDirectory directory;
  const auto reader = written(directory.file("a.hsnap"), metadata, {});
  REQUIRE(reader.metadata().mappings.size() == metadata.mappings.size());
  const std::string& path = reader.metadata().mappings.back().path;
  CHECK(path.starts_with("..."));
  CHECK(path.ends_with("d/65529"));
}
