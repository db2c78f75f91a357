// SnapshotReader on any bytes: Error{kBadInput}, or a snapshot whose parts fit together.
//
// Random changes seldom keep a checksum right, so each input is read twice: as it is, and with its
// checksums and footer repaired, which lets the fuzzer into the sections.
#include <xxhash.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/error.h"
#include "snapshot/format.h"
#include "snapshot/snapshot_reader.h"

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
    end = Address();
    reader.read_contents([&end](Address from, std::span<const std::byte> part) {
      require(!part.empty() && from >= end);
      end = from + part.size();
    });
  } catch (const Error& error) {
    require(error.kind() == ErrorKind::kBadInput);
  }
}

template <typename T>
T get(const std::vector<std::byte>& bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

template <typename T>
void set(std::vector<std::byte>& bytes, size_t offset, T value) {
  std::memcpy(bytes.data() + offset, &value, sizeof value);
}

// Gives every section that can be reached by its length a right checksum, and the file a footer
// whose index begins where the first index section does.
void repair(std::vector<std::byte>& bytes) {
  if (bytes.size() < format::kFileHeaderSize + format::kFooterSize) return;
  std::memcpy(bytes.data(), format::kFileMagic.data(), format::kFileMagic.size());
  const size_t footer = bytes.size() - format::kFooterSize;
  uint64_t index = footer;
  size_t at = format::kFileHeaderSize;
  while (at + format::kSectionHeaderSize + format::kChecksumSize <= footer) {
    const auto length = get<uint32_t>(bytes, at + 8);
    if (length < format::kSectionHeaderSize + format::kChecksumSize || length > footer - at) break;
    const auto kind = get<format::SectionKind>(bytes, at + 4);
    if (kind == format::SectionKind::kIndex && index == footer) index = at;
    const size_t end = at + length - format::kChecksumSize;
    set(bytes, end, static_cast<uint64_t>(XXH64(bytes.data() + at, end - at, 0)));
    at += length;
  }
  set(bytes, footer, index);
  set(bytes, footer + 8, footer - index);
  set(bytes, footer + 16, uint64_t{bytes.size()});
  set(bytes, footer + 24, static_cast<uint64_t>(XXH64(bytes.data() + footer, 24, 0)));
  std::memcpy(bytes.data() + footer + 32, format::kFooterMagic.data(), format::kFooterMagic.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto input = std::as_bytes(std::span(data, size));
  read(input);
  std::vector<std::byte> repaired(input.begin(), input.end());
  repair(repaired);
  read(repaired);
  return 0;
}
