// Snapshots made up for tests, and collectors for what comes out of a reader.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "heap/chunk.h"
#include "snapshot/snapshot_reader.h"
#include "snapshot/snapshot_writer.h"

namespace heapsnap::test {

struct OneChunk {
  Address address;
  uint64_t size = 0;
  ChunkState state = ChunkState::kUsed;
  int32_t arena = 0;
  uint32_t segment = 0;
  uint32_t stack = 0;
  uint8_t slack = 0;
  bool operator==(const OneChunk&) const = default;
};

struct ContentPiece {
  Address from;
  std::vector<std::byte> bytes;
};

// Everything that a snapshot holds, one item at a time.
struct Everything {
  std::vector<OneChunk> chunks;
  std::vector<MmappedChunk> mmapped;
  std::vector<SnapshotReader::PageRun> pages;
  std::vector<std::pair<Address, std::byte>> contents;  // byte by byte
  RecordedStacks call_stacks;
};

class ChunkCollector final : public ChunkSink {
 public:
  void on_batch(const ChunkBatch& batch) override;
  void on_mmapped(const MmappedChunk& chunk) override { mmapped.push_back(chunk); }

  std::vector<OneChunk> chunks;
  std::vector<MmappedChunk> mmapped;
};

Everything read_all(const SnapshotReader& reader);

// A batch with its own storage.
struct OwnedBatch {
  int32_t arena = 0;
  uint32_t segment = 0;
  Address begin;
  std::vector<uint64_t> sizes;
  std::vector<ChunkState> states;
  std::vector<uint32_t> stacks = {};
  std::vector<uint8_t> slacks = {};

  ChunkBatch view() const { return {arena, segment, begin, sizes, states, stacks, slacks}; }
  Address end() const;
};

// `count` end-to-end chunks of random sizes that malloc gives for requests of `low` to `high`
// bytes; one in `one_in_free` (0: none) is free.
OwnedBatch random_batch(std::mt19937_64& random, Address begin, size_t count, uint64_t low,
                        uint64_t high, unsigned one_in_free);

// Metadata with every field set to something that is not its default.
SnapshotMetadata full_metadata(size_t arenas, size_t segments);

// What the tracker of a process may have said, in all fields.
TrackerRecord full_tracker();
// Stacks and names that fit it.
RecordedStacks full_call_stacks();
// Gives each chunk a stack and a slack.
void add_stacks(std::mt19937_64& random, OwnedBatch& batch);

// A folder that is removed at the end.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  ~TemporaryDirectory();

  std::string file(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }
  std::vector<std::string> names() const;  // what is in it, ordered

 private:
  std::string path_;
};

std::vector<std::byte> read_file(const std::string& path);
void write_file(const std::string& path, std::span<const std::byte> bytes);

// A small snapshot (a few kilobytes) with some of everything.
std::vector<std::byte> small_snapshot();
void write_small_snapshot(const std::string& path);

}  // namespace heapsnap::test
