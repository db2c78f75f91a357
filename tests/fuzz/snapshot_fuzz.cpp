// SnapshotReader on any bytes: Error{kBadInput}, or a snapshot whose parts fit together.
//
// Random changes seldom keep a checksum right, so each input is read twice: as it is, and with its
// checksums and footer repaired, which lets the fuzzer into the sections.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/error.h"
#include "snapshot/snapshot_reader.h"
#include "tests/fuzz/repaired_snapshot.h"

namespace {

using namespace heapsnap;

void require(bool condition) {
  if (!condition) std::abort();
}

// What a report would do: it uses indices and sums without checks.
class Consumer final : public ChunkSink {
 public:
  explicit Consumer(const HeapModel& heap) : heap_(heap), arenas_(heap.arenas.size()) {}

  void on_batch(const ChunkBatch& batch) override {
    require(!batch.sizes.empty() && batch.sizes.size() == batch.states.size());
    require(batch.arena >= 0 && static_cast<size_t>(batch.arena) < heap_.arenas.size());
    require(batch.segment < heap_.segments.size());
    uint64_t total = 0;
    for (const uint64_t size : batch.sizes) require(!__builtin_add_overflow(total, size, &total));
    require(total <= UINT64_MAX - batch.begin.value());
    for (const ChunkState state : batch.states) require(state <= ChunkState::kUnknown);
    require(batch.stacks.empty() || batch.stacks.size() == batch.sizes.size());
    require(batch.slacks.empty() || batch.slacks.size() == batch.sizes.size());
    arenas_[static_cast<size_t>(batch.arena)] += total;
    require(!__builtin_add_overflow(total_, total, &total_));
    chunks += batch.sizes.size();
  }
  void on_mmapped(const MmappedChunk& chunk) override {
    require(chunk.instance < heap_.instances.size());
    require(chunk.state <= ChunkState::kUnknown);
    require(!__builtin_add_overflow(total_, chunk.total, &total_));
  }

  uint64_t chunks = 0;

 private:
  const HeapModel& heap_;
  std::vector<uint64_t> arenas_;
  uint64_t total_ = 0;
};

// Counts of references add up, and whatever names a block or a place names one that is there.
class References final : public ReferenceSink {
 public:
  explicit References(BlockNumber blocks) : blocks_(blocks) {}
  void on_references(const ReferenceBatch& batch) override {
    require(batch.first + batch.counts.size() <= blocks_);
    uint64_t count = 0;
    for (const uint32_t of_block : batch.counts) count += of_block;
    require(batch.offsets.size() == count && batch.interior.size() == count);
    require(batch.targets.size() == count);
    for (const BlockNumber target : batch.targets) require(target < blocks_);
  }

 private:
  BlockNumber blocks_;
};

void read_references(const SnapshotReader& reader) {
  const auto blocks = static_cast<BlockNumber>(reader.metadata().references->blocks);
  References references(blocks);
  reader.read_references(references);
  const std::vector<RootPlace> places = reader.read_root_places();
  reader.read_roots(places.size(), [&](const Root& root) {
    require(root.place < places.size() && root.target < blocks);
  });
  const size_t types = std::max<size_t>(reader.read_type_names().size(), 1);
  reader.read_block_types(types, [&](BlockNumber first, std::span<const TypeNumber> some) {
    require(first + some.size() <= blocks);
    for (const TypeNumber type : some) require(type < types);
  });
  for (const SlackWords& words : reader.read_slack_words()) require(words.block < blocks);
  for (const UnusedWord& word : reader.read_unused_words()) require(word.block < blocks);
  for (const ContainerWords& words : reader.read_containers()) {
    require(words.count != 0 && (words.block < blocks || words.block == kNoBlock));
  }
}

void read(std::span<const std::byte> bytes) {
  try {
    const SnapshotReader reader = SnapshotReader::from_bytes(bytes, "input");
    const SnapshotMetadata& metadata = reader.metadata();
    require(metadata.usage.empty() || metadata.usage.size() == metadata.mappings.size());
    for (size_t i = 0; i < metadata.mappings.size(); ++i) {
      require(!metadata.mappings[i].range.is_empty());
      if (i > 0) require(metadata.mappings[i - 1].range.end <= metadata.mappings[i].range.begin);
    }
    for (const Arena& arena : metadata.heap.arenas) {
      require(arena.instance < metadata.heap.instances.size());
    }
    for (const HeapSegment& segment : metadata.heap.segments) {
      require(static_cast<size_t>(segment.arena) < metadata.heap.arenas.size());
    }
    Consumer consumer(metadata.heap);
    reader.read_chunks(consumer);
    require(consumer.chunks == reader.chunk_count());
    const RecordedStacks recorded = reader.read_call_stacks();
    const CallStacks& stacks = recorded.stacks;
    for (const CallNode& node : stacks.nodes) {
      require(node.module < 0 ||
              static_cast<size_t>(node.module) < metadata.tracker->modules.size());
      for (const SourceFrame& frame : recorded.symbols.at(node.module, node.return_address)) {
        require(frame.function < recorded.symbols.strings().size());
        require(frame.file < recorded.symbols.strings().size());
      }
    }
    for (const AllocationSite& site : stacks.sites) {
      stacks.walk(site.node, [&](uint32_t id) { require(id < stacks.nodes.size()); });
    }
    Address end;
    reader.read_pages([&end](const SnapshotReader::PageRun& run) {
      require(!run.range.is_empty() && run.range.begin >= end);
      require(run.state <= PageState::kResidentHuge);
      end = run.range.end;
    });
    if (reader.has_references()) read_references(reader);
    end = Address();
    reader.read_contents([&end](Address from, std::span<const std::byte> part) {
      require(!part.empty() && from >= end);
      end = from + part.size();
    });
  } catch (const Error& error) {
    require(error.kind() == ErrorKind::kBadInput);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto input = std::as_bytes(std::span(data, size));
  read(input);
  std::vector<std::byte> repaired(input.begin(), input.end());
  heapsnap::test::repair(repaired);
  read(repaired);
  return 0;
}
