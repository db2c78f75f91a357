#include "redaction/shared_snapshot.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/unit/snapshot/snapshot_sample.h"

using namespace heapsnap;
using namespace heapsnap::test;

namespace {

// Of the sample, whose metadata are full of names.
struct SharedSample {
  explicit SharedSample(bool keeps_names) {
    write_small_snapshot(folder.file("a.hsnap"));
    share_snapshot(SnapshotReader::open(folder.file("a.hsnap")), {folder.file("b.hsnap"), false},
                   keeps_names);
  }
  SnapshotReader before() const { return SnapshotReader::open(folder.file("a.hsnap")); }
  SnapshotReader after() const { return SnapshotReader::open(folder.file("b.hsnap")); }

  TemporaryDirectory folder;
};

// In the first segment of full_metadata(), end to end.
OwnedBatch used_chunks(size_t count) {
  return {0, 0, full_metadata(1, 1).heap.segments[0].range.begin, std::vector<uint64_t>(count, 64),
          std::vector<ChunkState>(count, ChunkState::kUsed)};
}

}  // namespace

TEST_CASE("chunks and pages are the same elsewhere") {
  const SharedSample sample(true);
  const Everything before = read_all(sample.before());
  const Everything after = read_all(sample.after());
  REQUIRE(before.chunks.size() == after.chunks.size());
  for (size_t i = 0; i < before.chunks.size(); ++i) {
    OneChunk same = after.chunks[i];
    CHECK(same.address != before.chunks[i].address);
    same.address = before.chunks[i].address;
    CHECK(same == before.chunks[i]);
    if (i == 0) continue;
    const bool was_next =
        before.chunks[i - 1].address + before.chunks[i - 1].size == before.chunks[i].address;
    const bool is_next =
        after.chunks[i - 1].address + after.chunks[i - 1].size == after.chunks[i].address;
    CHECK(was_next == is_next);
    CHECK(after.chunks[i - 1].address < after.chunks[i].address);
  }
  REQUIRE(before.mmapped.size() == after.mmapped.size());
  for (size_t i = 0; i < before.mmapped.size(); ++i) {
    MmappedChunk same = after.mmapped[i];
    CHECK(same.chunk - same.mapping_begin ==
          before.mmapped[i].chunk - before.mmapped[i].mapping_begin);
    same.chunk = before.mmapped[i].chunk;
    same.mapping_begin = before.mmapped[i].mapping_begin;
    CHECK(same == before.mmapped[i]);
  }
  REQUIRE(before.pages.size() == after.pages.size());
  for (size_t i = 0; i < before.pages.size(); ++i) {
    CHECK(before.pages[i].range.size() == after.pages[i].range.size());
    CHECK(before.pages[i].state == after.pages[i].state);
  }
  // The first page is that of the first chunk in both.
  CHECK(after.pages[0].range.begin == after.chunks[0].address);
  CHECK(after.contents.empty());
  CHECK(!before.contents.empty());
}

TEST_CASE("call stacks keep their shape, their counts and their names") {
  const SharedSample sample(true);
  const RecordedStacks before = read_all(sample.before()).call_stacks;
  const RecordedStacks after = read_all(sample.after()).call_stacks;
  CHECK(before.stacks.sites == after.stacks.sites);
  REQUIRE(before.stacks.nodes.size() == after.stacks.nodes.size());
  std::map<Address, Address> moved;
  for (size_t i = 0; i < before.stacks.nodes.size(); ++i) {
    const CallNode& was = before.stacks.nodes[i];
    const CallNode& is = after.stacks.nodes[i];
    CHECK(was.parent == is.parent);
    CHECK(was.module == is.module);
    if (is_interpreted(was.module, was.return_address)) {
      CHECK(is.return_address == was.return_address);
    }
    const auto [known, is_new] = moved.try_emplace(was.return_address, is.return_address);
    CHECK(known->second == is.return_address);
    const auto was_frames = before.symbols.at(was.module, was.return_address);
    const auto is_frames = after.symbols.at(is.module, is.return_address);
    REQUIRE(was_frames.size() == is_frames.size());
    for (size_t k = 0; k < was_frames.size(); ++k) {
      CHECK(before.symbols.text(was_frames[k].function) ==
            after.symbols.text(is_frames[k].function));
      CHECK(was_frames[k].line == is_frames[k].line);
    }
  }
  const std::vector<std::string>& strings = after.symbols.strings();
  CHECK(std::find(strings.begin(), strings.end(), "a.cpp") != strings.end());
  CHECK(std::find(strings.begin(), strings.end(), "/src/a.cpp") == strings.end());
}

TEST_CASE("metadata keep their numbers and lose their names") {
  const SharedSample sample(true);
  const SnapshotReader reader = sample.after();
  const SnapshotMetadata before = sample.before().metadata();
  const SnapshotMetadata& after = reader.metadata();
  CHECK(after.process.pid == 1);
  CHECK(after.process.comm == "postgres");
  CHECK(after.process.exe == "/cut/postgres");
  CHECK(after.process.command_line == "/cut/postgres");
  CHECK(after.process.hostname == "host");
  CHECK(after.process.boot_id.size() == 16);
  CHECK(after.process.start_time_ticks == 0);
  CHECK(after.process.uid == UINT32_MAX);
  CHECK(after.process.rss == before.process.rss);
  CHECK(after.process.taken_at_ns == before.process.taken_at_ns);
  CHECK(after.process.build_id == before.process.build_id);
  CHECK(!after.collection);
  CHECK(after.memory_left->bytes == before.memory_left->bytes);
  CHECK(after.memory_left->limit == "memory limit of ...");
  CHECK(after.freeze.notes.empty());
  CHECK(after.freeze.pause_ns == before.freeze.pause_ns);
  CHECK(after.threads[0].tid == 1);
  CHECK(after.threads[0].name == "thread-1");
  CHECK(after.threads[1].tid == 2);
  CHECK(after.usage == before.usage);
  for (size_t i = 0; i < after.mappings.size(); ++i) {
    CHECK(after.mappings[i].range.size() == before.mappings[i].range.size());
    CHECK(after.mappings[i].is_anonymous() == before.mappings[i].is_anonymous());
    CHECK(after.mappings[i].device_minor == 0);
  }
  CHECK(after.heap.instances[0].module == "/cut/libc.so.6");
  CHECK(after.heap.instances[0].layout_source == "table L2/P35");
  CHECK(after.heap.instances[0].notes.empty());
  CHECK(after.heap.corruptions[0].what == "size ... at chunk ...");
  CHECK(after.heap.thread_caches[1].tid == 2);
  const TrackerRecord& tracker = *after.tracker;
  const TrackerRecord& was = *before.tracker;
  CHECK(limit_reached_after(tracker) == limit_reached_after(was));
  CHECK(tracker.started_ns != was.started_ns);
  CHECK(tracker.modules[0].path == "/cut/program");
  CHECK(tracker.modules[0].range.begin.value() - tracker.modules[0].bias ==
        was.modules[0].range.begin.value() - was.modules[0].bias);
  CHECK(tracker.modules[1].bias == 0);
  CHECK(tracker.threads[1].allocations == was.threads[1].allocations);
  CHECK(tracker.notes.empty());
  CHECK(tracker.memory[0].size() == was.memory[0].size());
  CHECK(after.notes.size() == 1);
}

TEST_CASE("heaps of language runtimes keep their numbers, and their classes") {
  for (const bool keeps_names : {true, false}) {
    const SharedSample sample(keeps_names);
    const RuntimeModel before = sample.before().metadata().runtimes;
    const RuntimeModel after = sample.after().metadata().runtimes;
    REQUIRE(after.runtimes.size() == before.runtimes.size());
    REQUIRE(after.classes.size() == before.classes.size());
    REQUIRE(after.areas.size() == before.areas.size());
    CHECK(after.types.size() == before.types.size());
    CHECK(after.pages == before.pages);
    Runtime python = after.runtimes[0];
    CHECK(python.module.starts_with(keeps_names ? "/cut/python3.11" : "/cut/module-"));
    CHECK(python.place != before.runtimes[0].place);
    python.module = before.runtimes[0].module;
    python.place = before.runtimes[0].place;
    CHECK(python == before.runtimes[0]);
    CHECK(after.runtimes[1].why_not.ends_with(" ... lays out its memory"));
    CHECK(after.classes[0].name == (keeps_names ? "Order" : "Type_1"));
    CHECK(after.classes[0].owned_bytes == before.classes[0].owned_bytes);
    CHECK(after.areas[0].range.size() == before.areas[0].range.size());
    CHECK(after.areas[0].range != before.areas[0].range);
    CHECK(after.areas[0].used == before.areas[0].used);
  }
}

TEST_CASE("without names, no name is left in the file") {
  const SharedSample sample(false);
  const SnapshotMetadata metadata = sample.after().metadata();
  CHECK(metadata.process.comm == "program");
  CHECK(metadata.process.build_id.empty());
  CHECK(metadata.heap.instances[0].build_id.empty());
  CHECK(metadata.tracker->modules[0].build_id.empty());
  const RecordedStacks stacks = read_all(sample.after()).call_stacks;
  for (const std::string& text : stacks.symbols.strings()) {
    CHECK((text.empty() || text.starts_with("function_")));
  }
}

TEST_CASE("the same snapshot gives the same file, and a second time changes nothing that is left") {
  const SharedSample one(true);
  const SharedSample other(true);
  CHECK(read_file(one.folder.file("b.hsnap")) == read_file(other.folder.file("b.hsnap")));
  share_snapshot(one.after(), {one.folder.file("c.hsnap"), false}, true);
  const SnapshotReader again = SnapshotReader::open(one.folder.file("c.hsnap"));
  CHECK(read_all(again).chunks.size() == read_all(one.after()).chunks.size());
  CHECK(again.metadata().process.exe == "/cut/postgres");
}

TEST_CASE("references, roots and types stay, also of a block that has very many") {
  const TemporaryDirectory folder;
  constexpr BlockNumber kBlocks = 3;
  constexpr uint32_t kMany = 600'000;  // more than a section holds
  SnapshotMetadata metadata = full_metadata(1, 1);
  metadata.references.emplace();
  metadata.references->is_complete = true;
  metadata.references->blocks = kBlocks;
  {
    SnapshotWriter writer({folder.file("a.hsnap"), false});
    writer.on_batch(used_chunks(kBlocks).view());
    const std::vector<uint32_t> counts = {1, kMany, 2};
    std::vector<uint32_t> offsets = {5};
    for (uint32_t i = 0; i < kMany; ++i) offsets.push_back(i);
    offsets.insert(offsets.end(), {1, 9});
    std::vector<BlockNumber> targets(offsets.size(), 1);
    std::vector<uint8_t> interior(offsets.size());
    interior.back() = 1;
    writer.on_references({0, counts, offsets, targets, interior});
    writer.on_root({0, 8, 2, true});
    writer.on_root({1, 0, 1, false});
    const std::vector<RootPlace> places = {
        {RootKind::kVariable, 0, "/opt/ann/x", "g_ann", Address(0x555500000040), 16, 0x4040},
        {RootKind::kStack, 4712, "/opt/ann/x", "main", Address(0x7ffc00000040), 80, 0x1139},
        {RootKind::kLocal, 4712, "/opt/ann/x", "rows in main() at x.py:3", Address(0x7ffc00000048),
         8, 0x7ffc00000090}};
    writer.on_root_places(places);
    const std::vector<TypeNumber> types = {0, 1, 1};
    writer.on_block_types(types);
    const std::vector<BlockType> names = {{}, {"Ann", "/opt/ann/x", TypeSource::kVtable}};
    writer.on_type_names(names);
    // In a block, in a place, and, as in a damaged file, twice where nothing is.
    const std::vector<ContainerWords> containers = {{1, 4, {}, 2},
                                                    {kNoBlock, 0, Address(0x1000), 2},
                                                    {kNoBlock, 0, Address(0x3000), 2},
                                                    {kNoBlock, 0, Address(0x7ffc00000048), 3}};
    writer.on_containers(containers);
    writer.finish(metadata);
  }
  const SnapshotReader before = SnapshotReader::open(folder.file("a.hsnap"));
  share_snapshot(before, {folder.file("b.hsnap"), false}, true);
  const SnapshotReader after = SnapshotReader::open(folder.file("b.hsnap"));
  CHECK(after.metadata().references->blocks == kBlocks);

  struct Collector final : ReferenceSink {
    std::map<BlockNumber, std::vector<std::pair<uint32_t, BlockNumber>>> blocks;
    void on_references(const ReferenceBatch& batch) override {
      size_t next = 0;
      for (size_t i = 0; i < batch.counts.size(); ++i) {
        auto& block = blocks[batch.first + static_cast<BlockNumber>(i)];
        for (uint32_t k = 0; k < batch.counts[i]; ++k, ++next) {
          block.emplace_back(batch.offsets[next] << 1 | batch.interior[next], batch.targets[next]);
        }
      }
    }
  };
  Collector was, is;
  before.read_references(was);
  after.read_references(is);
  CHECK(is.blocks[1].size() == kMany);
  CHECK(was.blocks == is.blocks);

  const std::vector<RootPlace> places = after.read_root_places();
  CHECK(places[0].name == "g_ann");
  CHECK(places[0].module == "/cut/x");
  CHECK(places[0].module_offset == 0x4040);
  CHECK(places[0].size == 16);
  CHECK(places[1].tid == after.metadata().threads[1].tid);
  CHECK(places[1].module_offset == 0x1139);
  // An address, which moved as all of its piece did.
  CHECK(places[2].module_offset != 0x7ffc00000090);
  CHECK(Address(places[2].module_offset) - places[2].begin == 0x48);
  std::vector<Root> roots;
  after.read_roots(places.size(), [&](const Root& root) { roots.push_back(root); });
  CHECK(roots == std::vector<Root>{{0, 8, 2, true}, {1, 0, 1, false}});
  CHECK(after.read_type_names()[1] == BlockType{"Ann", "/cut/x", TypeSource::kVtable});
  const std::vector<ContainerWords> containers = after.read_containers();
  REQUIRE(containers.size() == 4);
  CHECK(containers[0] == ContainerWords{1, 4, {}, 2});
  CHECK(containers[3].at == places[1].begin + 8);
}

TEST_CASE("references of more or fewer blocks than there are chunks in use are refused") {
  const TemporaryDirectory folder;
  for (const size_t chunks : {2, 3, 4}) {
    CAPTURE(chunks);
    SnapshotMetadata metadata = full_metadata(1, 1);
    metadata.references.emplace();
    metadata.references->is_complete = true;
    metadata.references->blocks = 3;
    {
      SnapshotWriter writer({folder.file("a.hsnap"), true});
      writer.on_batch(used_chunks(chunks).view());
      const std::vector<uint32_t> counts = {0, 0, 0};
      writer.on_references({0, counts, {}, {}, {}});
      writer.finish(metadata);
    }
    const SnapshotReader reader = SnapshotReader::open(folder.file("a.hsnap"));
    const auto share = [&] { share_snapshot(reader, {folder.file("b.hsnap"), false}, true); };
    if (chunks == metadata.references->blocks) {
      CHECK_NOTHROW(share());
      std::remove(folder.file("b.hsnap").c_str());
      continue;
    }
    try {
      share();
      FAIL("it was shared");
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::kBadInput);
    }
    CHECK(folder.names() == std::vector<std::string>{"a.hsnap"});
  }
}

TEST_CASE("a damaged snapshot is refused and leaves no file") {
  const TemporaryDirectory folder;
  std::vector<std::byte> bytes = small_snapshot();
  size_t refused = 0;
  for (size_t at = 100; at + 100 < bytes.size(); at += 97) {
    std::vector<std::byte> damaged = bytes;
    damaged[at] ^= std::byte{0x10};
    write_file(folder.file("a.hsnap"), damaged);
    try {
      share_snapshot(SnapshotReader::open(folder.file("a.hsnap")), {folder.file("b.hsnap"), true},
                     true);
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::kBadInput);
      ++refused;
      CHECK(folder.names() == std::vector<std::string>{"a.hsnap"});
    }
    std::remove(folder.file("b.hsnap").c_str());
  }
  CHECK(refused > 10);
}
